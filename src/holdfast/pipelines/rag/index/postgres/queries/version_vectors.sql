-- List the chunks of a version, with their texts and vectors.
select c.position, c.page, c.chunk_index, c.text, v.vector
  from (select hash, position, page, text, position - min(position) over (partition by page) as chunk_index
          from rag_chunk
         where document_id = :document_id
           and version = :version) c
  join rag_vector_{model_id} v on v.hash = c.hash
 order by c.position
