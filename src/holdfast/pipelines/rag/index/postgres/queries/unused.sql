-- Contents that have a vector and that no chunk has any more.
select v.hash
  from rag_vector_{model_id} v
 where v.hash > %(after)s
   and not exists (select 1 from rag_chunk c where c.hash = v.hash)
 order by v.hash
 limit %(limit)s
