-- Documents go on under other keys; whoever holds one loses it, and the attempt does not count.
-- What was running keeps its place in the queue: work that was begun comes first.
update hf_document d
   set key = new.key, payload = new.payload, fingerprint = new.fingerprint,
       due_at = case d.state when 'running' then d.submitted_at else d.due_at end,
       fence = d.fence + (d.state = 'running')::int, attempts = greatest(d.attempts - (d.state = 'running')::int, 0),
       state = case d.state when 'running' then 'waiting' else d.state end,
       worker_id = null, worked_by = coalesce(d.worker_id, d.worked_by), deadline_at = null
  from unnest(%(ids)s::bigint[], %(keys)s::text[], %(payloads)s::json[], %(fingerprints)s::text[])
       as new (id, key, payload, fingerprint)
 where d.id = any(%(ids)s::bigint[])
   and d.id = new.id
