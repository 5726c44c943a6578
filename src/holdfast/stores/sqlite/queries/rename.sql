-- Documents go on under other keys; whoever holds one loses it, and the attempt does not count.
-- What was running keeps its place in the queue: work that was begun comes first.
update hf_document
   set key = new.value ->> 1, payload = new.value ->> 2, fingerprint = new.value ->> 3,
       due_at = case state when 'running' then submitted_at else due_at end,
       fence = fence + (state = 'running'), attempts = max(attempts - (state = 'running'), 0),
       state = case state when 'running' then 'waiting' else state end,
       worker_id = null, worked_by = coalesce(worker_id, worked_by), deadline_at = null
  from json_each(:documents) as new
 where hf_document.id = new.value ->> 0
