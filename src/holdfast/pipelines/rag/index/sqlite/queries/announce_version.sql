-- Announce a change of a version to caches of vectors, if it is the visible version.
update rag_document
   set changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
   and version = :version
