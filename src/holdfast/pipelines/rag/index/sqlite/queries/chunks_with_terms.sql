-- List those of some chunks that match an expression.
select rowid
  from rag_words
 where rag_words match :expression
   and rowid in (select value from json_each(:ids))
