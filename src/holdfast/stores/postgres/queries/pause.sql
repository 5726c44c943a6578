-- Documents are parked; whoever holds one loses it, and the attempt does not count. Each parking has its own moves.
update hf_document
   set state = 'paused', worker_id = null, worked_by = coalesce(worker_id, worked_by),
       due_at = %(until)s, deadline_at = null, fence = fence + 1, moves = moves + 1,
       attempts = greatest(attempts - (state = 'running')::int, 0), reason = %(reason)s, error = 'OnHold'
 where id = any(%(ids)s::bigint[])
