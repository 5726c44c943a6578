-- List the chunks of a version with the hashes of their contents, in order.
select id, hash
  from rag_chunk
 where document_id = :document
   and version = :version
 order by position
