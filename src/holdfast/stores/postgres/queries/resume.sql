-- Paused documents go on, at the step that is given. At their own step they did not move, so their cursors age on.
update hf_document
   set state = 'waiting', step_id = %(step_id)s, cursor = case when step_id = %(step_id)s then cursor end,
       moves = moves + (step_id <> %(step_id)s)::int, due_at = coalesce(%(now)s::timestamptz, now()), reason = '', error = '',
       moved_at = case when step_id = %(step_id)s then moved_at else coalesce(%(now)s::timestamptz, now()) end
 where id = any(%(ids)s::bigint[])
