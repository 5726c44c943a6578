-- One past the last position that a step kept.
select coalesce(max(position) + 1, 0)
  from hf_item
 where document_id = %(document_id)s
   and generation = %(generation)s
   and step_id = %(step_id)s
