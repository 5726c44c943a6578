-- Record that the visible version of a document is in the vector space of its collection.
insert into rag_published (space_id, document_id, version)
select s.id, d.id, d.version
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  join rag_space s on s.collection = c.name
 where s.place = :place
   and s.model = :model
   and c.name = :collection
   and d.source = :source
   and d.key = :key
   and d.version is not null
on conflict do nothing
