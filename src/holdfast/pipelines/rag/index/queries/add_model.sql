-- Add an embedding model.
insert into rag_model (name, dimension) values (:name, :dimension)
returning id, dimension
