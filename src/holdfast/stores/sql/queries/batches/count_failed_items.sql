-- Count the failed items of the documents of a batch.
select count(*)
  from hf_aside a
  join hf_document d on d.id = a.document_id
 where d.batch_id = :batch_id
