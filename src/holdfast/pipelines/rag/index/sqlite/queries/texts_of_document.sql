-- List the texts of all chunks of a document.
select c.id, w.text
  from rag_chunk c
  join rag_words w on w.rowid = c.id
 where c.document_id = :document
 order by c.version, c.position
