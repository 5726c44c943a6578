-- Delete the rows of a collection's documents.
delete from rag_document
 where collection_id = (select id from rag_collection where name = :name)
