-- Orphans wait again, or become dead letters. What their workers still write will match no row.
-- Each parking has its own number of moves, so that a decision about one is never taken for another.
update hf_document d
   set state = o.state, worker_id = null, worked_by = d.worker_id, deadline_at = null,
       fence = d.fence + 1, reason = o.reason, error = o.error,
       due_at = case when o.delay = 0 then d.submitted_at
                     else coalesce(%(now)s::timestamptz, now()) + o.delay * interval '1 microsecond' end,
       attempts = o.attempts, crashes = o.crashes, moves = d.moves + (o.state = 'paused')::int
  from unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(states)s::text[], %(delays)s::bigint[], %(reasons)s::text[],
              %(errors)s::text[], %(attempts)s::int[], %(crashes)s::int[])
       as o (id, fence, state, delay, reason, error, attempts, crashes)
 where d.id = any(%(ids)s::bigint[])
   and d.id = o.id
   and d.fence = o.fence
   and coalesce(d.worker_id, 0) <> 0
