-- Who is in a step that only so many may be in.
select document_id
  from hf_permit
 where step_id = %(step_id)s
