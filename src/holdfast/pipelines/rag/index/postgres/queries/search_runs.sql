-- Find visible chunks that have runs of the question, and which of the runs each has.
-- `offset 0` selects by words first: without statistics, the planner would scan all documents instead.
select c.id,
       c.document_id,
       array(select c.words @@ r.run from unnest(:runs::tsquery[]) with ordinality as r (run, place) order by r.place)
  from (select *
          from rag_chunk
         where words @@ :selecting::tsquery
           and document_id = any(:documents::bigint[]) -- if documents
        offset 0) c
  join rag_document d on d.id = c.document_id and d.version = c.version
 where true
   and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
 limit :limit
