-- Whether all that was chunked is there, in words and in vectors, and seen.
select d.version = d.chunked
       and (select count(words) from rag_chunk c where c.document_id = d.id and c.version = d.version) = %(chunks)s
       and (select count(*)
              from rag_chunk c
              join rag_vector_{model_id} v on v.hash = c.hash
             where c.document_id = d.id and c.version = d.version) = %(chunks)s
       and exists (select 1
                     from rag_meaning m
                    where m.document_id = d.id and m.model_id = %(model_id)s and m.version = d.version)
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = %(collection)s
   and d.source = %(source)s
   and d.key = %(key)s
