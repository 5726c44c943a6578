-- List the chunks of these documents: the key, the latest complete version, and how many chunks each version has.
select d.key, d.chunked, k.version, count(*)
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  join rag_chunk k on k.document_id = d.id
 where c.name = :collection
   and d.source = :source
   and d.key in :keys::text[]
 group by d.key, d.chunked, k.version
