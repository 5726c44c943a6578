-- An orphan waits again, or becomes a dead letter. What its worker still writes will match no row.
-- Each parking has its own number of moves, so that a decision about one is never taken for another.
update hf_document
   set state = :state, worker_id = null, worked_by = worker_id, deadline_at = null,
       fence = fence + 1, reason = :reason, error = :error,
       due_at = case when :at_once then submitted_at else :due_at end,
       attempts = :attempts, crashes = :crashes, moves = moves + (:state = 'paused')
 where id = :id
   and fence = :fence
   and state = 'running'
