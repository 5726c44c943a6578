-- The chunks of the version that was chunked last, with their vectors.
select c.position, c.page, v.vector
  from rag_document d
  join rag_chunk c on c.document_id = d.id and c.version = d.chunked
  join rag_vector v on v.model_id = :model_id and v.hash = c.hash
 where d.id = :document_id
 order by c.position
