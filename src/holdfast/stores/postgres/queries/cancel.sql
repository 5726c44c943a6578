-- Open documents end for good; whoever holds one loses it.
update hf_document
   set state = 'cancelled', worker_id = null, worked_by = coalesce(worker_id, worked_by),
       due_at = null, deadline_at = null, fence = fence + 1, reason = %(reason)s,
       error = ''
 where id = any(%(ids)s::bigint[])
