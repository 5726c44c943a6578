-- Delete what a collection has spent.
delete from rag_spending
 where collection = :collection
