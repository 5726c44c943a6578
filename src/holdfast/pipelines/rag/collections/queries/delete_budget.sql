-- Delete the budget of a collection.
delete from rag_budget
 where collection = :collection
