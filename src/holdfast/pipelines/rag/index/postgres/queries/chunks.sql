-- What is known of chunks.
select c.id, l.name, d.source, d.key, d.kind, d.title, d.metadata, c.page, c.start, c.stop, c.text
  from rag_chunk c
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_collection l on l.id = d.collection_id
 where c.id = any(%(ids)s::bigint[])
