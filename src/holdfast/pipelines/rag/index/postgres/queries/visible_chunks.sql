-- Find chunks by their keys, if vector searches may find them.
select c.document_id, c.version, c.position, c.id
  from unnest(:documents::bigint[], :versions::bigint[], :positions::int[]) as k (document, version, position)
  join rag_chunk c on c.document_id = k.document and c.version = k.version and c.position = k.position
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_meaning m on m.document_id = d.id and m.model_id = :model_id and m.version = d.version
