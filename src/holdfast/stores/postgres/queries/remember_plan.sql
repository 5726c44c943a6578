-- A plan that nobody declared becomes known, or is found: documents went on under another than they were begun with.
insert into hf_plan (pipeline_id, digest, shape, step_ids)
values (%(pipeline_id)s, %(digest)s, %(shape)s, %(step_ids)s)
    on conflict (pipeline_id, digest) do update
   set digest = excluded.digest
returning id
