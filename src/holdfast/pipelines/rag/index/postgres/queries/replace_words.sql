-- Replace the words of chunks.
update rag_chunk c
   set words = n.words::tsvector
  from unnest(:ids::bigint[], :words::text[]) as n (id, words)
 where c.id = n.id
