-- Cancel open documents. A worker that holds one loses it.
update hf_document
   set state = 'cancelled', worker_id = null, worked_by = coalesce(worker_id, worked_by),
       due_at = null, deadline_at = null, fence = fence + 1, reason = :reason, code = :code,
       error = '', recoverable = null
 where id in :ids::bigint[]
