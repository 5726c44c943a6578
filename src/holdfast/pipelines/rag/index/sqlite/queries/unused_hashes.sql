-- List hashes that have a vector but no chunk. This scans all chunks: an index on their hashes would cost one more
-- page write for every chunk that is added.
select v.hash
  from rag_vector v
 where v.model_id = :model_id
   and v.hash > :after
   and v.hash not in (select c.hash from rag_chunk c)
 order by v.hash
 limit :limit
