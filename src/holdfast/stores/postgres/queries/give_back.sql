-- Ends claims without a move. Answers the documents that were still held.
-- What is due at once keeps its place in the queue: work that was begun comes first.
-- Each parking has its own number of moves, so that a decision about one is never taken for another.
update hf_document d
   set state = e.state, worker_id = null, worked_by = d.worker_id, deadline_at = null,
       reason = e.reason, error = e.error,
       due_at = case when e.until is null and e.delay = 0 then d.submitted_at
                     else coalesce(e.until,
                                   coalesce(%(now)s::timestamptz, now()) + e.delay * interval '1 microsecond') end,
       attempts = greatest(d.attempts - e.refund, 0), crashes = d.crashes + e.crashed,
       moves = d.moves + (e.state = 'paused')::int
  from unnest(%(ids)s::bigint[], %(generations)s::int[], %(fences)s::bigint[], %(states)s::text[],
              %(untils)s::timestamptz[], %(delays)s::bigint[], %(reasons)s::text[], %(errors)s::text[],
              %(refunds)s::int[], %(crashed)s::int[])
       as e (id, generation, fence, state, until, delay, reason, error, refund, crashed)
 where d.id = any(%(ids)s::bigint[])
   and d.id = e.id
   and d.generation = e.generation
   and d.fence = e.fence
   and coalesce(d.worker_id, 0) <> 0
returning d.id
