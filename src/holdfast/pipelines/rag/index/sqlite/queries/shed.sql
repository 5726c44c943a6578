-- Vectors of contents that no chunk has any more, unless one has come meanwhile.
delete from rag_vector
 where model_id = ?
   and hash = ?
   and not exists (select 1 from rag_chunk c where c.hash = rag_vector.hash)
