-- The names of batches.
select id, name
  from hf_batch
 where id = any(%(ids)s::bigint[])
