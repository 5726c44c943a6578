-- Sets a held document back to a step, as a new generation; its worker keeps it.
update hf_document
   set generation = generation + 1, step_id = :step_id, cursor = null, moves = moves + 1, worked_by = null,
       reuses = :reuses, attempts = 1, crashes = 0, deadline_at = null, moved_at = :now
 where id = :id
   and generation = :generation
   and fence = :fence
   and moves = :moves
   and state = 'running'
returning plan_id
