-- New documents begin at the first step.
insert into hf_document
  (pipeline_id, batch_id, plan_id, step_id, submission, part, due_at, submitted_at, moved_at,
   key, payload, fingerprint, priority)
select %(pipeline_id)s, %(batch_id)s, %(plan_id)s, %(step_id)s, %(submission)s, %(part)s,
       coalesce(%(now)s::timestamptz, now()), coalesce(%(now)s::timestamptz, now()), coalesce(%(now)s::timestamptz, now()),
       new.key, new.payload, new.fingerprint, new.priority
  from unnest(%(keys)s::text[], %(payloads)s::json[], %(fingerprints)s::text[], %(priorities)s::int[])
       as new (key, payload, fingerprint, priority)
