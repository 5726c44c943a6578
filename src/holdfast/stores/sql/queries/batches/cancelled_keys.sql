-- Return the keys of the cancelled documents of a batch.
select key
  from hf_document
 where batch_id = :batch_id
   and state = 'cancelled'
 order by key
 limit :limit
