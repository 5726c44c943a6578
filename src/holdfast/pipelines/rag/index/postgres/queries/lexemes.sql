-- Return the lexemes of words, each with the position of its word.
select n.place, l.lexeme
  from unnest(:words::text[]) with ordinality as n (word, place),
       unnest(to_tsvector('english', n.word)) l
