-- List documents that chunks refer to but that do not exist.
select distinct c.document_id
  from rag_chunk c
 where not exists (select 1 from rag_document d where d.id = c.document_id)
 order by c.document_id
 limit :limit
