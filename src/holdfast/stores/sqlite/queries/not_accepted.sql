-- Which of these dead letters nobody accepted yet.
select id
  from hf_document
 where id in (select value from json_each(:ids))
   and accepted_by is null
 order by id
