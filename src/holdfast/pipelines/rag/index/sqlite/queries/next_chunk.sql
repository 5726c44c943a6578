-- Return the id of a document, the highest chunk id in use, and the position of the next chunk of a version, and
-- the language of the version.
select d.id,
       max(
         (select coalesce(max(id), 0) from rag_chunk),
         (select coalesce(max(id), 0) from rag_words_content)  -- more where chunks were lost behind our back
       ),
       (select coalesce(max(position) + 1, 0) from rag_chunk where document_id = d.id and version = :version),
       coalesce(json_extract(d.coming, '$.language'), d.language)
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = :source
   and d.key = :key
