-- Read the vectors of chunks.
select c.id, v.vector
  from rag_chunk c
  join rag_vector_{model_id} v on v.hash = c.hash
 where c.id = any(:ids::bigint[])
