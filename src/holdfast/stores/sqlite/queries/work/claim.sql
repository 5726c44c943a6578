-- Give documents to the worker and count the attempt. They were found in this transaction, so they are still there.
update hf_document
   set state = 'running', worker_id = :worker_id, fence = fence + 1, attempts = attempts + 1,
       due_at = null, claimed_at = :now,
       deadline_at = iif(:timeouts = '{}', null, :now + json_extract(:timeouts, '$."' || step_id || '"'))
 where id in :ids::bigint[]
