-- Find the id of a collection by its name.
select id
  from rag_collection
 where name = :collection
