-- Create a collection, unless it exists.
insert into rag_collection (name, settings)
values (:name, :settings)
on conflict (name) do nothing
