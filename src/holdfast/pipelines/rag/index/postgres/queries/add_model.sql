-- A model is new.
insert into rag_model (name, dimension) values (%(name)s, %(dimension)s) returning id, dimension
