-- Which contents have a vector already.
select hash from rag_vector_{model_id} where hash = any(%(hashes)s::bytea[])
