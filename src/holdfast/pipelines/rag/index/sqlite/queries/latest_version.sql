-- Return the latest version of a document, and whether it has chunks of other versions.
select d.id,
       d.chunked,
       (select min(version) from rag_chunk where document_id = d.id) < d.chunked
       or (select max(version) from rag_chunk where document_id = d.id) > d.chunked
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = :source
   and d.key = :key
   and d.chunked is not null
