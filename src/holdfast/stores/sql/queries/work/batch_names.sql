-- Return the names of batches.
select id, name
  from hf_batch
 where id in :ids::bigint[]
