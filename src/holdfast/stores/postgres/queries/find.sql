-- The documents of this key, in all batches.
select *
  from hf_standing
 where key = %(key)s
   and batch_id = any(array(select id from hf_batch))
 order by id
