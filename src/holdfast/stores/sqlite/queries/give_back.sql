-- Ends a claim without a move. What is due at once keeps its place in the queue: work that was begun comes first.
-- Each parking has its own number of moves, so that a decision about one is never taken for another.
update hf_document
   set state = :state, worker_id = null, worked_by = worker_id, deadline_at = null, reason = :reason, error = :error,
       due_at = case when :at_once then submitted_at else :due_at end,
       attempts = max(attempts - :refund, 0), crashes = crashes + :crashed, moves = moves + (:state = 'paused')
 where id = :id
   and generation = :generation
   and fence = :fence
   and state = 'running'
