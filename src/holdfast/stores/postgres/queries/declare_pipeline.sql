-- Makes a pipeline known, and holds it until the transaction ends: declarations of it take turns.
insert into hf_pipeline (name)
values (%(name)s)
    on conflict (name) do update
   set name = excluded.name
returning id
