-- Return how many numbers the vectors of a model have.
select dimension
  from rag_model
 where name = :name
