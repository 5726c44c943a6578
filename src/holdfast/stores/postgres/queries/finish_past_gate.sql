-- A paused document that stood at the last gate is done.
update hf_document
   set state = 'done', step_id = null, cursor = null, moves = moves + 1, due_at = null, reason = '',
       moved_at = coalesce(%(now)s::timestamptz, now())
 where id = %(id)s
   and state = 'paused'
