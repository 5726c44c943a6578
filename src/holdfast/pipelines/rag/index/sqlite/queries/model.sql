-- The number of a model, which is new or has this dimension.
insert into rag_model (name, dimension) values (:name, :dimension)
on conflict (name) do update set dimension = dimension
returning id, dimension
