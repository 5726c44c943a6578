-- How often the commonest words occur, as the database's own statistics have it.
select l.lexeme, l.share
  from pg_stats s,
       unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) as l (lexeme, share)
 where s.tablename = 'rag_chunk'
   and s.attname = 'words'
   and s.schemaname = any(current_schemas(false))
