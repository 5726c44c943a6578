-- One due document that crashed its workers becomes the worker's, to be worked on alone.
-- The number two is core.retry.SUSPECT; it stands here because only a plain number finds the index of suspects.
-- A worker that was given up gets none: they would be taken from it at once, and the crash counted against them.
update hf_document
   set state = 'running', worker_id = :worker_id, fence = fence + 1, attempts = attempts + 1, plan_id = :plan_id,
       due_at = null, deadline_at = :now + json_extract(:timeouts, '$."' || step_id || '"')
 where id in (select id
                from hf_document
               where pipeline_id = :pipeline_id
                 and state = 'waiting'
                 and due_at <= :now
                 and crashes >= 2
                 and step_id in (select value from json_each(:step_ids))
                 and (:batch_id is null or batch_id = :batch_id)
                 and exists (select 1 from hf_worker where id = :worker_id and gone_at is null)
               order by priority desc, due_at, id
               limit 1)
returning id, fence, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, attempts, crashes,
          :now - moved_at, reuses, priority
