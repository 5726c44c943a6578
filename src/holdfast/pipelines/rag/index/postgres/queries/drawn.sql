-- The chunks of the version that was chunked last, with their vectors.
select c.position, c.page, v.vector::text
  from rag_document d
  join rag_chunk c on c.document_id = d.id and c.version = d.chunked
  join rag_vector_{model_id} v on v.hash = c.hash
 where d.id = %(document_id)s
 order by c.position
