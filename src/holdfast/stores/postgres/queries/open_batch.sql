-- Opens a batch, or finds it.
insert into hf_batch (pipeline_id, name, created_at)
values (%(pipeline_id)s, %(name)s, coalesce(%(now)s::timestamptz, now()))
    on conflict (pipeline_id, name) do nothing
