-- Set a held document back to a step, as a new generation. Its worker keeps it.
update hf_document
   set generation = generation + 1, step_id = :step_id, cursor = null, moves = moves + 1, worked_by = null,
       reuses = :reuses, extents = :extents::json, totals = null, attempts = 1, crashes = 0, losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0, deadline_at = null,
       moved_at = :now
 where id = :id
   and generation = :generation
   and fence = :fence
   and moves = :moves
   and state = 'running'
returning plan_id
