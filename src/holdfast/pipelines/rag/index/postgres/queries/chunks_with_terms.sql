-- List those of some chunks that match an expression.
select id
  from rag_chunk
 where id = any(:ids::bigint[])
   and words @@ :expression::tsquery
