-- Remembers the shape of a pipeline; the one declared last is the present one, and is later than the others whatever the clock says.
insert into hf_plan (pipeline_id, digest, shape, step_ids, declared_at)
values (%(pipeline_id)s, %(digest)s, %(shape)s, %(step_ids)s,
        greatest(coalesce(%(now)s::timestamptz, now()), (select max(declared_at) + interval '1 microsecond'
                                                           from hf_plan
                                                          where pipeline_id = %(pipeline_id)s
                                                            and digest <> %(digest)s)))
    on conflict (pipeline_id, digest) do update
   set shape = excluded.shape, step_ids = excluded.step_ids, declared_at = excluded.declared_at
returning id
