-- Add a pipeline, unless it is known.
insert into hf_pipeline (name)
values (:name)
    on conflict (name) do nothing
