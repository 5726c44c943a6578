-- List the visible and the latest version of documents.
select id, version, chunked
  from rag_document
 where id in :documents::bigint[]
