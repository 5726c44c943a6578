-- Which of these dead letters nobody accepted yet.
select id
  from hf_document
 where id = any(%(ids)s::bigint[])
   and accepted_by is null
 order by id
