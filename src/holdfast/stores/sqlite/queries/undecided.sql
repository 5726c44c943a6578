-- Documents at a gate whose time to be decided is over. Those that somebody put on hold only wait.
select id, moves
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'paused'
   and error <> 'OnHold'
   and due_at <= :now
   and step_id = :step_id
 order by due_at, id
 limit :limit
