-- Which of these moves start where their documents are, and with whom. One document moves once.
select min(m.key)
  from json_each(:moves) as m
  join hf_document d on d.id = m.value ->> 0
 where d.generation = m.value ->> 1
   and d.fence = m.value ->> 2
   and d.moves = m.value ->> 3
   and d.state = 'running'
 group by d.id
 order by 1
