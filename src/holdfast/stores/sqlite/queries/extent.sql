-- One past the last position that a step kept.
select coalesce(max(position) + 1, 0)
  from hf_item
 where document_id = ?
   and generation = ?
   and step_id = ?
