-- Read the vectors of chunks.
select c.id, v.vector
  from rag_chunk c
  join rag_vector v on v.model_id = :model_id and v.hash = c.hash
 where c.id in (select value from json_each(:ids))
