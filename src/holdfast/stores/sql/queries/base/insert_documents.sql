-- Add new documents at the first step.
insert into hf_document
  (pipeline_id, batch_id, plan_id, step_id, submission, part, due_at, waits_since, submitted_at, moved_at,
   key, payload, fingerprint, priority, effects)
select :pipeline_id, :batch_id, :plan_id, :step_id, :submission, :part, :now, :now, :now, :now,
       new.key, new.payload, new.fingerprint, new.priority, '{}'::json
  from rows(:documents) as new (key text, payload json, fingerprint text, priority int)
