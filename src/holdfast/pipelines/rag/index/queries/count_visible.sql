-- Count the document (0 or 1) if its latest version is visible, by keyword and by vector.
select count(*)
  from rag_document d
  join rag_collection k on k.id = d.collection_id
  join rag_meaning m on m.document_id = d.id and m.model_id = :model_id and m.version = d.version
 where k.name = :collection
   and d.source = :source
   and d.key = :key
   and d.version = d.chunked
