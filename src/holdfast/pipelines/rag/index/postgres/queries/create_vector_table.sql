-- Create the table of a model's vectors: an index on vectors needs vectors of one dimension.
create table rag_vector_{model_id} (
  hash bytea primary key,
  vector halfvec({dimension}) not null
)
