-- Let paused documents go on at a step. At their own step they did not move, so the age of their cursors grows.
-- A person has looked at them, so it is counted from zero again how often they are put off and interrupted.
-- No worker has had a document at the step after its gate.
update hf_document
   set state = 'waiting', step_id = :step_id, cursor = case when step_id = :step_id then cursor end,
       moves = moves + (step_id <> :step_id)::int, worked_by = case when step_id = :step_id then worked_by end,
       due_at = :now, waits_since = :now, deferrals = 0, deferred_at = null, interruptions = 0,
       reason = '', code = '', error = '', recoverable = null,
       moved_at = case when step_id = :step_id then moved_at else :now end
 where id in :ids::bigint[]
