-- Nothing of a document is seen any more. Its row stays without a name, so that searches learn of it.
update rag_document
   set key = null,
       version = null,
       chunked = null,
       coming = null,
       changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
