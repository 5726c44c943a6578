-- An open document ends for good; whoever holds it loses it.
update hf_document
   set state = 'cancelled', worker_id = null, due_at = null, deadline_at = null, fence = fence + 1, reason = %(reason)s
 where id = %(id)s
   and state in ('waiting', 'running', 'paused')
