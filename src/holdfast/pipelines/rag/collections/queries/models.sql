-- List the models that have vectors.
select name, dimension
  from rag_model
 order by id
