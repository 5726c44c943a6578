-- Create a batch, unless it exists.
insert into hf_batch (pipeline_id, name, created_at)
values (:pipeline_id, :name, :now)
    on conflict (pipeline_id, name) do nothing
