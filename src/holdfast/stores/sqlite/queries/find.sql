-- The documents of this key, in all batches.
select *
  from hf_standing
 where key = :key
   and batch_id in (select id from hf_batch)
 order by id
