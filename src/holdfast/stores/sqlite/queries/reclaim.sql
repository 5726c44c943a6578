-- An orphan waits again, or becomes a dead letter. What its worker still writes will match no row.
update hf_document
   set state = :state, worker_id = null, due_at = :due_at, deadline_at = null, fence = fence + 1, reason = :reason,
       attempts = :attempts, crashes = :crashes
 where id = :id
   and fence = :fence
   and state = 'running'
