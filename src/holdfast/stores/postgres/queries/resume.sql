-- A paused document goes on, at the step that is given.
update hf_document
   set state = 'waiting', step_id = %(step_id)s, cursor = case when step_id = %(step_id)s then cursor end,
       moves = moves + (step_id <> %(step_id)s)::int, due_at = coalesce(%(now)s::timestamptz, now()), reason = '',
       moved_at = coalesce(%(now)s::timestamptz, now())
 where id = %(id)s
   and state = 'paused'
