-- Changed documents begin anew, as a new generation. A worker that holds one loses it.
update hf_document d
   set payload = new.payload, fingerprint = new.fingerprint, priority = new.priority,
       plan_id = %(plan_id)s, step_id = %(step_id)s, submission = %(submission)s, part = %(part)s,
       generation = d.generation + 1, fence = d.fence + 1, moves = 0, cursor = null, reuses = null,
       state = 'waiting', worker_id = null, attempts = 0, crashes = 0, reason = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = coalesce(%(now)s::timestamptz, now()), deadline_at = null, moved_at = coalesce(%(now)s::timestamptz, now())
  from unnest(%(keys)s::text[], %(payloads)s::json[], %(fingerprints)s::text[], %(priorities)s::int[])
       as new (key, payload, fingerprint, priority)
 where d.batch_id = %(batch_id)s
   and d.key = any(%(keys)s::text[])
   and d.key = new.key
