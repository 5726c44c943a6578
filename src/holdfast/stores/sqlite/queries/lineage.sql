-- Where a document stands, its plan and what it reuses: so much decides what it reuses after a rewind.
select step_id, plan_id, generation, reuses
  from hf_document
 where id = :id
