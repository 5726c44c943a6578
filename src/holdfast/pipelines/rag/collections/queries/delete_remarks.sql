-- Delete the remarks about all documents of a collection.
delete from rag_remark
 where collection = :collection
