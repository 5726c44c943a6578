-- How many chunks of the version that was chunked last are there, with their words.
select count(c.words)
  from rag_document d
  join rag_collection k on k.id = d.collection_id
  join rag_chunk c on c.document_id = d.id and c.version = d.chunked
 where k.name = %(collection)s
   and d.source = %(source)s
   and d.key = %(key)s
