-- Paused documents go on, at the step that is given. At their own step they did not move, so their cursors age on.
update hf_document
   set state = 'waiting', step_id = :step_id, cursor = case when step_id = :step_id then cursor end,
       moves = moves + (step_id <> :step_id), due_at = :now, reason = '', error = '',
       moved_at = case when step_id = :step_id then moved_at else :now end
 where id in (select value from json_each(:ids))
