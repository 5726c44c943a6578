-- Sets a held document back to a step, as a new generation; its worker keeps it.
update hf_document
   set generation = generation + 1, step_id = %(step_id)s, cursor = null, moves = moves + 1, worked_by = null,
       reuses = %(reuses)s, attempts = 1, crashes = 0, deadline_at = null,
       moved_at = coalesce(%(now)s::timestamptz, now())
 where id = %(id)s
   and generation = %(generation)s
   and fence = %(fence)s
   and moves = %(moves)s
   and state = 'running'
returning plan_id
