-- List hashes that have a vector but no chunk.
select v.hash
  from rag_vector_{model_id} v
 where v.hash > :after
   and not exists (select 1 from rag_chunk c where c.hash = v.hash)
 order by v.hash
 limit :limit
