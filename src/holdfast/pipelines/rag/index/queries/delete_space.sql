-- Delete the record of a vector space.
delete from rag_space
 where id = :space_id
