-- Add the document of a capsule. Its worker did not come with it: a document that was running waits.
insert into hf_document
  (pipeline_id, batch_id, plan_id, key, payload, fingerprint, submission, part, priority, state, generation, step_id,
   cursor, moves, attempts, crashes, losses, deferrals, interruptions, due_at, claimed_at, reason, code, error, accepted_by, reuses, extents, submitted_at, moved_at,
   cleaned_at)
values
  (:pipeline_id, :batch_id, :plan_id, :key, :payload, :fingerprint, :submission, 0, :priority, :state, :generation,
   :step_id, :cursor, :moves, :attempts, :crashes, :losses, :deferrals, :interruptions, :due_at, :claimed_at, :reason, :code, :error, :accepted_by, :reuses, :extents,
   :submitted_at, :moved_at, :cleaned_at)
returning id
