-- The forms under which full text keeps words, each word's own.
select n.place, l.lexeme
  from unnest(%(words)s::text[]) with ordinality as n (word, place),
       unnest(to_tsvector('english', n.word)) l
