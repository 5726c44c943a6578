-- A version is complete in words. Where none was seen yet, this one is seen at once.
update rag_document
   set chunked = :version, version = coalesce(version, :version),
       changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
