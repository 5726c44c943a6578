-- List the versions in a vector space, by the records of the database.
select document_id, version
  from rag_published
 where space_id = :space_id
