-- Give documents other keys and payloads. A worker that holds one loses it, and the attempt does not count.
-- A document that was running keeps its place in the queue: work that was begun comes first.
update hf_document as d
   set key = new.key, payload = new.payload, fingerprint = new.fingerprint,
       due_at = case d.state when 'running' then least(d.submitted_at, :now) else d.due_at end,
       waits_since = case d.state when 'running' then :now else d.waits_since end,
       fence = d.fence + (d.state = 'running')::int, attempts = greatest(d.attempts - (d.state = 'running')::int, 0),
       state = case d.state when 'running' then 'waiting' else d.state end,
       worker_id = null, worked_by = coalesce(d.worker_id, d.worked_by), deadline_at = null
  from rows(:documents) as new (id bigint, key text, payload json, fingerprint text)
 where d.id = new.id
   and d.id in :documents_id::bigint[] -- on postgresql
