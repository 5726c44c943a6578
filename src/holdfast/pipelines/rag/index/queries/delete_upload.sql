-- Delete the record that a version of a document is in a vector space.
delete from rag_published
 where space_id = :space_id
   and document_id = :document_id
   and version = :version
