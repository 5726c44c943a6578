-- Documents become the worker's. The attempt counts from here. What was found in this transaction is still there.
update hf_document
   set state = 'running', worker_id = :worker_id, fence = fence + 1, attempts = attempts + 1,
       due_at = null, claimed_at = :now,
       deadline_at = iif(:timeouts = '{}', null, :now + json_extract(:timeouts, '$."' || step_id || '"'))
 where id in (select value from json_each(:ids))
