-- Lock a version until the end of the transaction, if it is the visible version.
select 1
  from rag_document
 where id = :document_id
   and version = :version
   for update
