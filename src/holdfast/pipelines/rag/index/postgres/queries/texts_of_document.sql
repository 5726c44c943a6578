-- List the texts of all chunks of a document.
select id, text
  from rag_chunk
 where document_id = :document
 order by version, position
