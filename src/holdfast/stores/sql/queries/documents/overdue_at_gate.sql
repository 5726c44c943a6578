-- Return documents at a gate whose deadline has passed. Documents on hold have no such deadline.
select id, moves
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'paused'
   and code <> 'on_hold'
   and due_at <= :now
   and step_id = :step_id
 order by due_at, id
 limit :limit
