-- Create the index on a model's vectors.
create index rag_vector_{model_id}_near on rag_vector_{model_id} using hnsw (vector halfvec_cosine_ops)
