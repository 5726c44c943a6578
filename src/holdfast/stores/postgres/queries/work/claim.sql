-- Give documents to the worker, by priority, then age, and count the attempt.
-- A worker that was declared gone gets none: they would be taken from it at once, and counted as losses.
-- Documents that another worker is just claiming are skipped, not waited for.
-- The numbers are core.retry.SUSPECT and SUSPECT_LOSSES. They are written out because only constants find the index of
-- suspects.
update hf_document d
   set state = 'running', worker_id = :worker_id, fence = fence + 1, attempts = attempts + 1,
       due_at = null, claimed_at = :now,
       deadline_at = :now + (:timeouts::json ->> step_id::text)::float8 * interval '1 microsecond'
 where id = any(array(select id
                        from hf_document
                       where pipeline_id = :pipeline_id
                         and id = :document_id -- if document
                         and state = 'waiting'
                         and due_at <= :now -- if due
                         and crashes < 2 and losses < 5 -- if ordinary
                         and (crashes >= 2 or losses >= 5) -- if suspect
                         and step_id in :step_ids::bigint[]
                         and (:batch::text is null
                              or batch_id = (select id
                                               from hf_batch
                                              where pipeline_id = :pipeline_id
                                                and name = :batch::text))
                         and exists (select 1 from hf_worker where id = :worker_id and gone_at is null)
                       order by priority desc, due_at, id
                       limit :limit
                         for update skip locked -- if due
                         for no key update -- if document
                     ))
returning id, fence, batch_id, key, payload::text, fingerprint, generation,
          step_id, cursor::text, moves, attempts, crashes, :now - moved_at, reuses::text,
          losses, deferrals, coalesce(:now - deferred_at, interval '0'), interruptions, effects::text, extents::text,
          totals::text, worked_by is not null, nullif(plan_id, :plan_id), priority
