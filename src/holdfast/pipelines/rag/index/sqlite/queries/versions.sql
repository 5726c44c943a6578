-- The versions of documents that are seen, or are to be seen next.
select id, version, chunked
  from rag_document
 where id in (select value from json_each(:documents))
