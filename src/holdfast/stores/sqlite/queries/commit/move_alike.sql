-- Do what move.sql does for documents that all go the same way: from one step without a cursor to another, with progress,
-- with the same change of effects and extents, and none of totals.
update hf_document
   set step_id = ?2, deadline_at = ?3, moves = moves + 1, attempts = 1, crashes = 0, losses = 0, deferrals = 0,
       deferred_at = null, interruptions = 0,
       effects = iif(?4 is null, effects, json_patch(coalesce(effects, '{}'), ?4)), extents = coalesce(?5, extents),
       moved_at = ?6
  from (values
       /* rows */ (?, ?, ?, ?)
       ) as m
 where id = m.column1
   and generation = m.column2
   and fence = m.column3
   and moves = m.column4
   and step_id = ?1
   and cursor is null
   and state = 'running'
