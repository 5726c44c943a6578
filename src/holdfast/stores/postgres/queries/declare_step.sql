-- Makes a step known, under the number it had if it was known before.
insert into hf_step (pipeline_id, name)
values (%(pipeline_id)s, %(name)s)
    on conflict (pipeline_id, name) do nothing
