-- Save that somebody named this source here.
insert into rag_source (collection, source)
values (:collection, :source)
on conflict (collection, source) do nothing
