-- Read the budget of a collection.
select limits
  from rag_budget
 where collection = :collection
