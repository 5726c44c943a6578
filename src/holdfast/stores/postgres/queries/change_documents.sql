-- Changed documents begin anew, as a new generation. A worker that holds one loses it.
-- What a document that was done kept is served until it is done again.
-- The generation is later than anything that is kept, also where a damaged row says that it is not.
update hf_document d
   set payload = new.payload, fingerprint = new.fingerprint, priority = new.priority,
       plan_id = %(plan_id)s, step_id = %(step_id)s, submission = %(submission)s, part = %(part)s,
       generation = 1 + greatest(d.generation, (select max(i.generation) from hf_item i where i.document_id = d.id)),
       fence = d.fence + 1, moves = d.moves + 1, cursor = null, reuses = null,
       serves = case when d.cleaned_at is not null then null
                     when d.state <> 'done' then d.serves
                     else (select json_object_agg(s.id, coalesce((d.reuses ->> s.id::text)::int, d.generation))
                             from hf_step s
                            where s.pipeline_id = d.pipeline_id) end,
       state = 'waiting', worker_id = null, worked_by = null, attempts = 0, crashes = 0, reason = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = coalesce(%(now)s::timestamptz, now()), deadline_at = null, moved_at = coalesce(%(now)s::timestamptz, now())
  from unnest(%(keys)s::text[], %(payloads)s::json[], %(fingerprints)s::text[], %(priorities)s::int[])
       as new (key, payload, fingerprint, priority)
 where d.batch_id = %(batch_id)s
   and d.key = any(%(keys)s::text[])
   and d.key = new.key
