-- Documents that are due, by priority, then age, as they will be when they are claimed. Suspects wait for find_suspect.
-- A worker that was given up gets none: they would be taken from it at once, and the crash counted against them.
select id, fence + 1, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, attempts + 1, crashes,
       :now - moved_at, reuses, nullif(plan_id, :plan_id), priority
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'waiting'
   and due_at <= :now
   and crashes < 2
   and step_id in (select value from json_each(:step_ids))
   and (:batch_id is null or batch_id = :batch_id)
   and exists (select 1 from hf_worker where id = :worker_id and gone_at is null)
 order by priority desc, due_at, id
 limit :limit
