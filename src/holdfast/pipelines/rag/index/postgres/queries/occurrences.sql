-- In how many chunks words occur, counted no further than is needed to know that they are common.
select n.lexeme,
       (select count(*) from (select 1 from rag_chunk c where c.words @@ n.lexeme::tsquery limit %(most)s) counted)
  from unnest(%(lexemes)s::text[]) as n (lexeme)
