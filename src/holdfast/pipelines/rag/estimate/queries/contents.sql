-- List the contents of documents, and their characters. A document without chunks has one row, too.
select distinct d.key, k.hash, k.stop - k.start
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  left join rag_chunk k on k.document_id = d.id and k.version = d.chunked
 where c.name = :collection
   and d.source = :source
   and d.key in :keys::text[]
