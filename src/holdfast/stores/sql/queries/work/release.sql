-- End claims without a move. Return the documents that were still held.
-- A document that is due at once keeps its place in the queue: work that was begun comes first.
-- Each pause has its own number of moves, so that a decision about one pause is not taken for another.
update hf_document as d
   set state = e.state, worker_id = null, worked_by = d.worker_id, deadline_at = null,
       reason = e.reason, code = e.code, error = e.error,
       due_at = case when e.at_once = 1 then least(d.submitted_at, :now) else coalesce(e.until, :now + e.delay) end,
       waits_since = case when e.until is null then :now end,
       attempts = greatest(d.attempts - e.refund, 0), crashes = d.crashes + e.crashed,
       losses = d.losses + e.lost, deferrals = d.deferrals + e.deferred, interruptions = d.interruptions + e.interrupted,
       deferred_at = case when e.deferred = 1 then coalesce(d.deferred_at, :now) else d.deferred_at end,
       recoverable = e.recoverable,
       moves = d.moves + (e.state = 'paused')::int
  from rows(:endings) as e (id bigint, generation int, fence bigint, state text, until timestamptz, delay interval,
                            at_once int, reason text, code text, error text, refund int, crashed int,
                            lost int, deferred int, interrupted int, recoverable boolean)
 where d.id = e.id
   and d.id in :endings_id::bigint[] -- on postgresql
   and d.generation = e.generation
   and d.fence = e.fence
   and d.state = 'running' -- on sqlite
   and coalesce(d.worker_id, 0) <> 0 -- on postgresql
returning id, fence -- on sqlite
returning d.id, d.fence -- on postgresql
