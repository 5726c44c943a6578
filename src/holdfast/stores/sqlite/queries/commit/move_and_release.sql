-- Move checkpoints, and release the documents from their worker, all in the same way: done, or paused at a gate.
update hf_document
   set step_id = ?, cursor = null, state = ?, reason = ?, code = ?, due_at = ?,
       worker_id = null, worked_by = worker_id, deadline_at = null, serves = iif(?1 is null, null, serves),
       moves = moves + 1, attempts = 0, crashes = 0, losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0,
       effects = iif(m.column7 is null, effects, json_patch(coalesce(effects, '{}'), m.column7)),
       extents = coalesce(m.column8, extents), totals = coalesce(m.column9, totals), moved_at = ?,
       waits_since = iif(?5 is null, waits_since, ?6)
  from (values
       /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ) as m
 where id = m.column1
   and generation = m.column2
   and fence = m.column3
   and moves = m.column4
   and step_id = m.column5
   and (cursor is m.column6 or m.column6 = '*')
   and state = 'running'
