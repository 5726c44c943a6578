-- Record a vector space before it is created, unless it is recorded already.
insert into rag_space (collection, place, model, name)
values (:collection, :place, :model, :name)
on conflict do nothing
