-- Move checkpoints whose generation, fence, moves, step and cursor still match. A cursor '*' matches any. The documents
-- stay with their worker.
update hf_document
   set step_id = m.column7, cursor = m.column8, deadline_at = m.column9,
       moves = moves + 1, attempts = iif(m.column10, 1, attempts), crashes = 0, losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0,
       effects = iif(m.column11 is null, effects, json_patch(coalesce(effects, '{}'), m.column11)),
       extents = coalesce(m.column12, extents), totals = coalesce(m.column13, totals), moved_at = ?
  from (values
       /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ) as m
 where id = m.column1
   and generation = m.column2
   and fence = m.column3
   and moves = m.column4
   and step_id = m.column5
   and (cursor is m.column6 or m.column6 = '*')
   and state = 'running'
