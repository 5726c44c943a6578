-- One document that waits becomes the worker's, due or not: somebody asked for this very one.
-- A worker that was given up gets none: it would be taken from it at once, and the crash counted against it.
update hf_document d
   set state = 'running', worker_id = %(worker_id)s, fence = fence + 1, attempts = attempts + 1,
       due_at = null, claimed_at = coalesce(%(now)s::timestamptz, now()), deadline_at = null
 where id = %(document_id)s
   and pipeline_id = %(pipeline_id)s
   and state = 'waiting'
   and step_id = any(%(step_ids)s::bigint[])
   and exists (select 1 from hf_worker where id = %(worker_id)s and gone_at is null)
returning id, fence, batch_id, key, payload::text, fingerprint, generation,
          step_id, cursor::text, moves, attempts, crashes, coalesce(%(now)s::timestamptz, now()) - moved_at, reuses::text,
          nullif(plan_id, %(plan_id)s), priority
