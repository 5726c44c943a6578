-- Return the documents that are in a step with a limit, with their fences.
select document_id, fence
  from hf_permit
 where step_id = :step_id
