-- Nothing of a document is seen any more.
update rag_document
   set version = null, chunked = null, changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
