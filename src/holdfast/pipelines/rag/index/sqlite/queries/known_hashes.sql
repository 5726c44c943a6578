-- List the hashes that have a vector. The id of the model is the first parameter.
select hash
  from rag_vector
 where model_id = ?
   and hash in (values
/* rows */ (?)
)
