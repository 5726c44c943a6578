-- A paused document goes on, at the step that is given.
update hf_document
   set state = 'waiting', step_id = :step_id, cursor = case when step_id = :step_id then cursor end,
       moves = moves + (step_id <> :step_id), due_at = :now, reason = '', moved_at = :now
 where id = :id
   and state = 'paused'
