-- Vectors of contents that no chunk has any more, unless one has come meanwhile.
delete from rag_vector_{model_id} v
 where v.hash = any(%(hashes)s::bytea[])
   and not exists (select 1 from rag_chunk c where c.hash = v.hash)
