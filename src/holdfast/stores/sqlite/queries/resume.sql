-- A paused document goes on, at the step that is given. At its own step it did not move, so its cursor ages on.
update hf_document
   set state = 'waiting', step_id = :step_id, cursor = case when step_id = :step_id then cursor end,
       moves = moves + (step_id <> :step_id), due_at = :now, reason = '',
       moved_at = case when step_id = :step_id then moved_at else :now end
 where id = :id
   and state = 'paused'
