-- Makes a pipeline known.
insert into hf_pipeline (name)
values (:name)
    on conflict (name) do nothing
