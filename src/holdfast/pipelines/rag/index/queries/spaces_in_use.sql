-- List the vector spaces that collections use.
select id, collection, place, model, name
  from rag_space
 where collection is not null
 order by id
