-- Whether all that was chunked is there, in words and in vectors, and seen.
select d.version = d.chunked
       and (select count(*) from rag_chunk c where c.document_id = d.id and c.version = d.version) = :chunks
       and (select count(*)
              from rag_chunk c
              join rag_words w on w.rowid = c.id
             where c.document_id = d.id and c.version = d.version) = :chunks
       and (select count(*)
              from rag_chunk c
              join rag_vector v on v.model_id = :model_id and v.hash = c.hash
             where c.document_id = d.id and c.version = d.version) = :chunks
       and exists (select 1
                     from rag_meaning m
                    where m.document_id = d.id and m.model_id = :model_id and m.version = d.version)
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = :source
   and d.key = :key
