-- Store the shape of a pipeline. The shape declared last is the current one, so its time is later than all others.
insert into hf_plan (pipeline_id, digest, shape, step_ids, declared_at)
values (:pipeline_id, :digest, :shape, :step_ids,
        greatest(:now, coalesce((select max(declared_at) + :tick::interval
                                   from hf_plan
                                  where pipeline_id = :pipeline_id
                                    and digest <> :digest), :now)))
    on conflict (pipeline_id, digest) do update
   set shape = excluded.shape, step_ids = excluded.step_ids, declared_at = excluded.declared_at
returning id
