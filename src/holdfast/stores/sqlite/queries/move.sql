-- Moves checkpoints on where generation, fence and moves still match. The documents stay with their worker.
update hf_document
   set step_id = m.column5, cursor = m.column6, deadline_at = m.column7,
       moves = moves + 1, attempts = iif(m.column8, 1, attempts), crashes = 0, moved_at = ?
  from (values
       /* rows */ (?, ?, ?, ?, ?, ?, ?, ?)
       ) as m
 where id = m.column1
   and generation = m.column2
   and fence = m.column3
   and moves = m.column4
   and state = 'running'
