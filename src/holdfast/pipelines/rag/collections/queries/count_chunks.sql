-- Count the chunks of a collection: those of the latest complete version of each document.
select count(*)
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  join rag_chunk k on k.document_id = d.id and k.version = d.chunked
 where c.name = :collection
   and d.key is not null
