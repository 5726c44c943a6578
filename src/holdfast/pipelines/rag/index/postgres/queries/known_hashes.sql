-- List the hashes that have a vector.
select hash from rag_vector_{model_id} where hash = any(:hashes::bytea[])
