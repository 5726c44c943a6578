-- Which contents have a vector already. The number of the model comes first.
select hash
  from rag_vector
 where model_id = ?
   and hash in (values
/* rows */ (?)
)
