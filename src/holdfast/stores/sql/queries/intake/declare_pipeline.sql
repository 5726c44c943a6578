-- Add a pipeline, or find it, and lock it until the transaction ends: declarations of it take turns.
insert into hf_pipeline (name)
values (:name)
    on conflict (name) do update
   set name = excluded.name
returning id
