-- Remembers the shape of a pipeline; the one declared last is the present one.
insert into hf_plan (pipeline_id, digest, shape, step_ids, declared_at)
values (%(pipeline_id)s, %(digest)s, %(shape)s, %(step_ids)s, coalesce(%(now)s::timestamptz, now()))
    on conflict (pipeline_id, digest) do update
   set shape = excluded.shape, step_ids = excluded.step_ids, declared_at = excluded.declared_at
returning id
