-- List the vectors that searches may find.
select c.id, c.document_id, d.collection_id, v.vector
  from rag_document d
  join rag_meaning m on m.document_id = d.id and m.model_id = :model_id and m.version = d.version
  join rag_chunk c on c.document_id = d.id and c.version = d.version
  join rag_vector v on v.model_id = m.model_id and v.hash = c.hash
 where d.version is not null
   and d.id in (select value from json_each(:documents)) -- if documents
