-- Return the moves that start where their documents are, under the same claim. A document moves once. A cursor '*'
-- matches any.
select min(m.key)
  from json_each(:moves) as m
  join hf_document d on d.id = m.value ->> 0
 where d.generation = m.value ->> 1
   and d.fence = m.value ->> 2
   and d.moves = m.value ->> 3
   and d.step_id = m.value ->> 4
   and (d.cursor is m.value ->> 5 or m.value ->> 5 = '*')
   and d.state = 'running'
 group by d.id
 order by 1
