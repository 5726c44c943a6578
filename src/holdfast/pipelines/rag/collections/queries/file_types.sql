-- List the types of the documents that the index has of a collection, by name.
select distinct d.kind
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.key is not null
   and d.kind <> ''
 order by d.kind
