-- Moves checkpoints on, and the documents leave their worker, all alike: done, or parked at a gate.
update hf_document
   set step_id = ?, cursor = ?, state = ?, reason = ?,
       worker_id = null, due_at = null, deadline_at = null,
       moves = moves + 1, attempts = 0, crashes = 0, moved_at = ?
  from (values
       /* rows */ (?, ?, ?, ?)
       ) as m
 where id = m.column1
   and generation = m.column2
   and fence = m.column3
   and moves = m.column4
   and state = 'running'
