-- Return a row if a document exists.
select 1
  from rag_document
 where id = :document_id
