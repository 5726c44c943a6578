-- List the documents of a source whose keys start with a prefix.
select d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = :source
   and starts_with(d.key, :key)
