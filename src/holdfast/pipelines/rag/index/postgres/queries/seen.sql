-- The chunks at these places, of versions that are seen by their meaning.
select c.document_id, c.version, c.position, c.id
  from unnest(%(documents)s::bigint[], %(versions)s::bigint[], %(positions)s::int[]) as p (document, version, position)
  join rag_chunk c on c.document_id = p.document and c.version = p.version and c.position = p.position
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_meaning m on m.document_id = d.id and m.model_id = %(model_id)s and m.version = d.version
