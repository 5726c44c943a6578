-- Changed documents begin anew, as a new generation. A worker that holds one loses it.
update hf_document
   set payload = new.value ->> 1, fingerprint = new.value ->> 2, priority = new.value ->> 3,
       plan_id = :plan_id, step_id = :step_id, submission = :submission, part = :part,
       generation = generation + 1, fence = fence + 1, moves = 0, cursor = null, reuses = null,
       state = 'waiting', worker_id = null, attempts = 0, crashes = 0, reason = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = :now, deadline_at = null, moved_at = :now
  from json_each(:documents) as new
 where batch_id = :batch_id
   and hf_document.key = new.value ->> 0
