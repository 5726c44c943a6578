-- The version that was chunked last is what searches see from now on.
update rag_document
   set version = chunked, changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
returning version
