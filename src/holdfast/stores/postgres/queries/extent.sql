-- One past the last position that a step kept.
select position + items
  from hf_item
 where document_id = %(document_id)s
   and generation = %(generation)s
   and step_id = %(step_id)s
 order by position desc
 limit 1
