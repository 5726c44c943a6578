-- Add a step. A step that is known keeps its number.
insert into hf_step (pipeline_id, name)
values (:pipeline_id, :name)
    on conflict (pipeline_id, name) do nothing
