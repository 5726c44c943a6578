-- Count the chunks that a search looks at, up to the number that can be compared one by one.
select count(*)
  from (select 1
          from rag_document d
          join rag_chunk c on c.document_id = d.id and c.version = d.version
         where true
           and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
           and d.id = any(:documents::bigint[]) -- if documents
         limit :most) counted
