-- List the most common words and the share of chunks that have them, from the statistics of the database.
select l.lexeme, l.share
  from pg_stats s,
       unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) as l (lexeme, share)
 where s.tablename = 'rag_chunk'
   and s.attname = 'words'
   and s.schemaname = any(current_schemas(false))
