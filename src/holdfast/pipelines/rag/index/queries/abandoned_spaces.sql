-- List the vector spaces that no collection uses any more.
select id, '', place, model, name
  from rag_space
 where collection is null
 order by id
