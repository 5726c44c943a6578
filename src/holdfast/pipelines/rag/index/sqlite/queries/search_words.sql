-- Find visible chunks by keyword, best first.
select c.id, c.document_id, -bm25(rag_words, 1.0, 0.5) as score
  from rag_words
  join rag_chunk c on c.id = rag_words.rowid
  join rag_document d on d.id = c.document_id and d.version = c.version
 where rag_words match :words
   and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
   and d.id in (select value from json_each(:documents)) -- if documents
 order by score desc
 limit :limit
