-- Start changed documents again, as a new generation. A worker that holds one loses it.
-- What a finished document kept is served until it is done again.
-- The new generation is later than anything that is kept, even if the row is damaged.
-- The slice is looked up first, key by key: SQLite knows neither size, and would walk the batch and, for each document,
-- the slice.
with new as materialized (
  select d.id, one.payload, one.fingerprint, one.priority
    from rows(:documents) as one (key text, payload json, fingerprint text, priority int)
   cross join hf_document d on d.batch_id = :batch_id and d.key = one.key
)
update hf_document
   set payload = new.payload, fingerprint = new.fingerprint, priority = new.priority,
       plan_id = :plan_id, step_id = :step_id, submission = :submission, part = :part,
       generation = 1 + max(generation, coalesce((select max(i.generation)
                                                    from hf_item i
                                                   where i.document_id = hf_document.id), 0)),
       fence = fence + 1, moves = moves + 1, cursor = null, reuses = null,
       serves = case when cleaned_at is not null then null
                     when state <> 'done' then serves
                     else (select json_group_object(s.id, coalesce(json_int(hf_document.reuses, s.id),
                                                                   hf_document.generation))
                             from hf_step s
                            where s.pipeline_id = hf_document.pipeline_id) end,
       state = 'waiting', worker_id = null, worked_by = null, attempts = 0, crashes = 0,
       losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0, extents = null, totals = null, recoverable = null,
       reason = '', code = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = :now, waits_since = :now, deadline_at = null, moved_at = :now
  from new
 where hf_document.id = new.id
