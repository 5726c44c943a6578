-- Contents that have a vector and that no chunk has any more.
select v.hash
  from rag_vector v
 where v.model_id = :model_id
   and v.hash > :after
   and not exists (select 1 from rag_chunk c where c.hash = v.hash)
 order by v.hash
 limit :limit
