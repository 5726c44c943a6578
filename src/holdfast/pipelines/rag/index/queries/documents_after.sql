-- List the next documents whose words are made again.
select id, title
  from rag_document
 where id > :after
 order by id
 limit :limit
