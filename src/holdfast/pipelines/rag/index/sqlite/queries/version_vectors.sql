-- List the chunks of a version, with their texts and vectors.
select c.position, c.page, c.chunk_index, w.text, v.vector
  from (select id, hash, position, page, position - min(position) over (partition by page) as chunk_index
          from rag_chunk
         where document_id = :document_id
           and version = :version) c
  join rag_vector v on v.model_id = :model_id and v.hash = c.hash
  join rag_words w on w.rowid = c.id
 order by c.position
