-- Searches have to learn something of a version, if it is still the one that is seen.
update rag_document
   set changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
   and version = :version
