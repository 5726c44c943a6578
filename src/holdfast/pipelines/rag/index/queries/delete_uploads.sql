-- Delete the records of all versions in a vector space.
delete from rag_published
 where space_id = :space_id
