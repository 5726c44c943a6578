-- Take orphans from their workers: they wait again, or become dead letters. What their workers write matches no row.
-- Each pause has its own number of moves, so that a decision about one pause is not taken for another.
update hf_document as d
   set state = o.state, worker_id = null, worked_by = d.worker_id, deadline_at = null,
       fence = d.fence + 1, reason = o.reason, code = o.code, error = o.error,
       due_at = case when o.at_once = 1 then least(d.submitted_at, :now) else :now + o.delay end,
       waits_since = :now,
       attempts = o.attempts, crashes = o.crashes, losses = o.losses,
       recoverable = o.recoverable, moves = d.moves + (o.state = 'paused')::int
  from rows(:orphans) as o (id bigint, fence bigint, state text, delay interval, at_once int, reason text, code text, error text,
                            attempts int, crashes int, losses int, recoverable boolean)
 where d.id = o.id
   and d.id in :orphans_id::bigint[] -- on postgresql
   and d.fence = o.fence
   and d.state = 'running' -- on sqlite
   and coalesce(d.worker_id, 0) <> 0 -- on postgresql
