-- Save a job, unless it exists.
insert into rag_job (collection, id, source)
values (:collection, :id, :source)
on conflict (collection, id) do nothing
