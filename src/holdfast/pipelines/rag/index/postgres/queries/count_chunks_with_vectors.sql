-- Count the chunks of the latest version that have a vector.
select count(*)
  from rag_document d
  join rag_collection k on k.id = d.collection_id
  join rag_chunk c on c.document_id = d.id and c.version = d.chunked
  join rag_vector_{model_id} v on v.hash = c.hash
 where k.name = :collection
   and d.source = :source
   and d.key = :key
