-- Moves checkpoints on, and the documents leave their worker, all alike: done, or parked at a gate until then.
update hf_document
   set step_id = ?, cursor = ?, state = ?, reason = ?, due_at = ?,
       worker_id = null, worked_by = worker_id, deadline_at = null, serves = iif(?1 is null, null, serves),
       moves = moves + 1, attempts = 0, crashes = 0, moved_at = ?
  from (values
       /* rows */ (?, ?, ?, ?)
       ) as m
 where id = m.column1
   and generation = m.column2
   and fence = m.column3
   and moves = m.column4
   and state = 'running'
