-- Pause documents. A worker that holds one loses it, and the attempt does not count. Each pause has its own number of
-- moves.
update hf_document
   set state = 'paused', worker_id = null, worked_by = coalesce(worker_id, worked_by),
       due_at = :until, waits_since = null, deadline_at = null, fence = fence + 1, moves = moves + 1,
       attempts = greatest(attempts - (state = 'running')::int, 0), reason = :reason, code = 'on_hold', error = '', recoverable = null
 where id in :ids::bigint[]
