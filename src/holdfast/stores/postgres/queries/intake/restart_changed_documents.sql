-- Start changed documents again, as a new generation. A worker that holds one loses it.
-- What a finished document kept is served until it is done again.
-- The new generation is later than anything that is kept, even if the row is damaged.
update hf_document d
   set payload = new.payload, fingerprint = new.fingerprint, priority = new.priority,
       plan_id = :plan_id, step_id = :step_id, submission = :submission, part = :part,
       generation = 1 + greatest(d.generation, (select max(i.generation) from hf_item i where i.document_id = d.id)),
       fence = d.fence + 1, moves = d.moves + 1, cursor = null, reuses = null,
       serves = case when d.cleaned_at is not null then null
                     when d.state <> 'done' then d.serves
                     else (select json_object_agg(s.id, coalesce(json_int(d.reuses, s.id), d.generation))
                             from hf_step s
                            where s.pipeline_id = d.pipeline_id) end,
       state = 'waiting', worker_id = null, worked_by = null, attempts = 0, crashes = 0,
       losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0, extents = null, totals = null, recoverable = null,
       reason = '', code = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = :now, waits_since = :now, deadline_at = null, moved_at = :now
  from rows(:documents) as new (key text, payload json, fingerprint text, priority int)
 where d.batch_id = :batch_id
   and d.key in :documents_key::text[]
   and d.key = new.key
