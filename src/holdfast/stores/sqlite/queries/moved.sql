-- Which of these moves were made.
select m.value ->> 0
  from json_each(:moves) as m
  join hf_document d on d.id = m.value ->> 0
 where d.generation = m.value ->> 1
   and d.fence = m.value ->> 2
   and d.moves = m.value ->> 3
   and d.moved_at = :now
