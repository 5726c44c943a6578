-- Ends a claim without a move.
update hf_document
   set state = :state, worker_id = null, due_at = :due_at, deadline_at = null, reason = :reason,
       attempts = max(attempts - :refund, 0), crashes = crashes + :crashed
 where id = :id
   and generation = :generation
   and fence = :fence
   and state = 'running'
