-- Find an embedding model by its name.
select id, dimension from rag_model where name = :name
