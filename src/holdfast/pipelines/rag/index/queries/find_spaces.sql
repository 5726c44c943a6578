-- List the vector spaces of a model at a place, for all collections that exist.
select id, collection, place, model, name
  from rag_space
 where place = :place
   and model = :model
   and collection is not null
 order by id
