-- One past the last position that a step kept.
select position + items
  from hf_item
 where document_id = ?
   and generation = ?
   and step_id = ?
 order by position desc
 limit 1
