-- Remembers the shape of a pipeline; the one declared last is the present one, and is later than the others whatever the clock says.
insert into hf_plan (pipeline_id, digest, shape, step_ids, declared_at)
values (:pipeline_id, :digest, :shape, :step_ids,
        max(:now, coalesce((select 1 + max(declared_at)
                              from hf_plan
                             where pipeline_id = :pipeline_id
                               and digest <> :digest), 0)))
    on conflict (pipeline_id, digest) do update
   set shape = excluded.shape, step_ids = excluded.step_ids, declared_at = excluded.declared_at
returning id
