-- List the chunks of a version, with their vectors.
select c.position, c.page, v.vector
  from rag_chunk c
  join rag_vector v on v.model_id = :model_id and v.hash = c.hash
 where c.document_id = :document_id
   and c.version = :version
 order by c.position
