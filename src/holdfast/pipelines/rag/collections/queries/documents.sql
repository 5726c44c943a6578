-- List documents that the index has of a collection, or only of one source.
select d.source, d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = coalesce(:source, d.source)
   and d.key is not null
 limit :limit
