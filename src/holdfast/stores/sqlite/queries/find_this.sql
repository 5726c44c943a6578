-- One document that waits, due or not, as it will be when it is claimed: somebody asked for this very one.
-- A worker that was given up gets none: it would be taken from it at once, and the crash counted against it.
select id, fence + 1, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, attempts + 1, crashes,
       :now - moved_at, reuses, nullif(plan_id, :plan_id), priority
  from hf_document
 where id = :document_id
   and pipeline_id = :pipeline_id
   and state = 'waiting'
   and step_id in (select value from json_each(:step_ids))
   and exists (select 1 from hf_worker where id = :worker_id and gone_at is null)
