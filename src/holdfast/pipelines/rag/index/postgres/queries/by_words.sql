-- The chunks that fit some words best, of what is seen: each word counts by its rarity, and less each time it is repeated.
with chosen as materialized (
  select c.id, c.document_id, c.words || '' as words, c.stop - c.start as long  -- unpacked once, not for every word
    from rag_chunk c
    join rag_document d on d.id = c.document_id and d.version = c.version
   where c.words @@ %(choosing)s::tsquery
     and d.collection_id = (select id from rag_collection where name = %(collection)s) -- if collection
     and d.id = any(%(documents)s::bigint[]) -- if documents
)
select c.id,
       c.document_id,
       (select sum(w.weight * ts_rank('{0, 0, 0.5, 1}', c.words, w.word::tsquery))
          from unnest(%(words)s::text[], %(weights)s::float8[]) as w (word, weight))
       / (1 + 1.2 * (0.25 + 0.75 * c.long / (select greatest(avg(long), 1) from chosen))) as score
  from chosen c
 order by score desc, c.id
 limit %(limit)s
