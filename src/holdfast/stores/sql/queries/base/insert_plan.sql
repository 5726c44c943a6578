-- Add a plan that nobody declared, or find it: documents went on under another plan than they began with.
insert into hf_plan (pipeline_id, digest, shape, step_ids)
values (:pipeline_id, :digest, :shape, :step_ids)
    on conflict (pipeline_id, digest) do update
   set digest = excluded.digest
returning id
