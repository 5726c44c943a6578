-- Find visible chunks that have runs of the question, with their terms.
select c.id, c.document_id, ' ' || w.terms || ' | ' || w.title || ' '
  from rag_words w
  join rag_chunk c on c.id = w.rowid
  join rag_document d on d.id = c.document_id and d.version = c.version
 where w.rag_words match :runs
   and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
   and d.id in (select value from json_each(:documents)) -- if documents
 limit :limit
