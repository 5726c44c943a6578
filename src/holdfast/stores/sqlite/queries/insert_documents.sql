-- New documents begin at the first step.
insert into hf_document
  (pipeline_id, batch_id, plan_id, step_id, submission, part, due_at, submitted_at, moved_at,
   key, payload, fingerprint, priority)
select :pipeline_id, :batch_id, :plan_id, :step_id, :submission, :part, :now, :now, :now,
       value ->> 0, value ->> 1, value ->> 2, value ->> 3
  from json_each(:documents)
