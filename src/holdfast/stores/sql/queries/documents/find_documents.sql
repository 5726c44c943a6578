-- Return the status of all documents of this key, in all batches.
select *
  from hf_document_status
 where key = :key
   and batch_id in (select id from hf_batch) -- on sqlite
   and batch_id = any(array(select id from hf_batch)) -- on postgresql
 order by id
