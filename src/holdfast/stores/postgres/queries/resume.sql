-- A paused document goes on, at the step that is given. At its own step it did not move, so its cursor ages on.
update hf_document
   set state = 'waiting', step_id = %(step_id)s, cursor = case when step_id = %(step_id)s then cursor end,
       moves = moves + (step_id <> %(step_id)s)::int, due_at = coalesce(%(now)s::timestamptz, now()), reason = '',
       moved_at = case when step_id = %(step_id)s then moved_at else coalesce(%(now)s::timestamptz, now()) end
 where id = %(id)s
   and state = 'paused'
