-- Contents that have a vector and that no chunk has any more. One walk over all chunks: an index over their hashes would
-- cost a page for every chunk that is added.
select v.hash
  from rag_vector v
 where v.model_id = :model_id
   and v.hash > :after
   and v.hash not in (select c.hash from rag_chunk c)
 order by v.hash
 limit :limit
