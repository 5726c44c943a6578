-- The names of batches.
select id, name
  from hf_batch
 where id in (select value from json_each(:ids))
