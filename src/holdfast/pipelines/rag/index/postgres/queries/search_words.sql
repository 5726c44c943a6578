-- Find visible chunks by keyword, best first. Each word counts by its rarity, and less each time it is repeated.
-- The words arrive as queries: parsing them for every chunk would take as long as ranking it.
-- `offset 0` selects by words first: without statistics, the planner would scan all documents instead.
select id,
       document_id,
       rank / (1 + 1.2 * (0.25 + 0.75 * long / greatest(avg(long) over (), 1))) as score
  from (select c.id,
               c.document_id,
               (c.stop - c.start)::float8 as long,
               (select sum(w.weight * ts_rank('{0, 0, 0.5, 1}', c.words, w.word))
                  from unnest(:words::tsquery[], :weights::float8[]) as w (word, weight)) as rank
          from (select *
                  from rag_chunk
                 where words @@ :selecting::tsquery
                   and document_id = any(:documents::bigint[]) -- if documents
                offset 0) c
          join rag_document d on d.id = c.document_id and d.version = c.version
         where true
           and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
       ) chosen
 order by score desc, id
 limit :limit
