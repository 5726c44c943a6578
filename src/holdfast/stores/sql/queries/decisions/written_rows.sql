-- Return which generation wrote the rows of which step, of documents, and which generations they reuse.
select id, effects::text, reuses::text
  from hf_document
 where id in :ids::bigint[]
 order by id
