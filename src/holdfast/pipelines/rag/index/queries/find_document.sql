-- Find a document by its name: its id, its visible version and its latest version.
select d.id, d.version, d.chunked
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = :source
   and d.key = :key
