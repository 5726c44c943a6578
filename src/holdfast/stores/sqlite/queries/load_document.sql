-- A document as a capsule brought it. No worker came with it: one that was running waits, and nobody had it last.
insert into hf_document
  (pipeline_id, batch_id, plan_id, key, payload, fingerprint, submission, part, priority, state, generation, step_id,
   cursor, moves, attempts, crashes, due_at, claimed_at, reason, error, accepted_by, reuses, submitted_at, moved_at,
   cleaned_at)
values
  (:pipeline_id, :batch_id, :plan_id, :key, :payload, :fingerprint, :submission, 0, :priority, :state, :generation,
   :step_id, :cursor, :moves, :attempts, :crashes, :due_at, :claimed_at, :reason, :error, :accepted_by, :reuses,
   :submitted_at, :moved_at, :cleaned_at)
returning id
