-- Return the status of documents, by id.
select *
  from hf_document_status
 where id in :ids::bigint[]
 order by id
