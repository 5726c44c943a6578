-- Count the chunks that have a lexeme, up to a limit: a higher count only means that it is common.
select n.lexeme,
       (select count(*) from (select 1 from rag_chunk c where c.words @@ n.lexeme::tsquery limit :most) counted)
  from unnest(:lexemes::text[]) as n (lexeme)
