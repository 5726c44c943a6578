-- Who is in a step that only so many may be in, and under which fence.
select document_id, fence
  from hf_permit
 where step_id = :step_id
