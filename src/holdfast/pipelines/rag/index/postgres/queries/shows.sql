-- Whether the version that was chunked last is the one that is seen, by words and by meaning.
select count(*)
  from rag_document d
  join rag_collection k on k.id = d.collection_id
  join rag_meaning m on m.document_id = d.id and m.model_id = %(model_id)s and m.version = d.version
 where k.name = %(collection)s
   and d.source = %(source)s
   and d.key = %(key)s
   and d.version = d.chunked
