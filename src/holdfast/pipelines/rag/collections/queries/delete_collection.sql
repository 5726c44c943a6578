-- Delete the row of a collection.
delete from rag_collection
 where name = :name
