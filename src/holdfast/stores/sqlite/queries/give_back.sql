-- Ends a claim without a move. What is due at once keeps its place in the queue: work that was begun comes first.
update hf_document
   set state = :state, worker_id = null, deadline_at = null, reason = :reason, error = :error,
       due_at = case when :at_once then submitted_at else :due_at end,
       attempts = max(attempts - :refund, 0), crashes = crashes + :crashed
 where id = :id
   and generation = :generation
   and fence = :fence
   and state = 'running'
