-- Return one past the last position that a step kept.
select position + items
  from hf_item
 where document_id = :document_id
   and generation = :generation
   and step_id = :step_id
 order by position desc
 limit 1
