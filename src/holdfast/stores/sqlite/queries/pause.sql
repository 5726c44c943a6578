-- Documents are parked; whoever holds one loses it, and the attempt does not count. Each parking has its own moves.
update hf_document
   set state = 'paused', worker_id = null, worked_by = coalesce(worker_id, worked_by),
       due_at = :until, deadline_at = null, fence = fence + 1, moves = moves + 1,
       attempts = max(attempts - (state = 'running'), 0), reason = :reason, error = 'OnHold'
 where id in (select value from json_each(:ids))
