-- Return documents that may be claimed, by priority, then age, with the values that they will have when claimed.
-- A worker that was declared gone gets none: they would be taken from it at once, and counted as losses.
-- The numbers are core.retry.SUSPECT and SUSPECT_LOSSES. They are written out because only constants find the index of
-- suspects.
select id, fence + 1, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, attempts + 1, crashes,
       :now - moved_at, reuses, losses, deferrals, coalesce(:now - deferred_at, 0), interruptions, effects, extents,
       totals, worked_by is not null, nullif(plan_id, :plan_id), priority
  from hf_document
 where pipeline_id = :pipeline_id
   and id = :document_id -- if document
   and state = 'waiting'
   and due_at <= :now -- if due
   and crashes < 2 and losses < 5 -- if ordinary
   and (crashes >= 2 or losses >= 5) -- if suspect
   and step_id in :step_ids::bigint[]
   and (:batch_id is null or batch_id = :batch_id)
   and exists (select 1 from hf_worker where id = :worker_id and gone_at is null)
 order by priority desc, due_at, id
 limit :limit
