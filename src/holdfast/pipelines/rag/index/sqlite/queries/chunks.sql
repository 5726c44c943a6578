-- What is known of chunks.
select c.id, l.name, d.source, d.key, d.kind, d.title, d.metadata, c.page, c.start, c.stop, w.text
  from rag_chunk c
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_collection l on l.id = d.collection_id
  join rag_words w on w.rowid = c.id
 where c.id in (select value from json_each(:ids))
