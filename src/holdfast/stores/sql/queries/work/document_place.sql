-- Return the step, the plan and the reused generations of a document.
select step_id, plan_id, generation, reuses::text
  from hf_document
 where id = :id
