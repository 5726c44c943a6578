-- Delete a document. Its row stays without a key, so that caches of vectors learn of the change.
update rag_document
   set key = null,
       version = null,
       chunked = null,
       coming = null,
       changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
