-- Delete vectors that no chunk needs.
delete from rag_vector_{model_id} v
 where v.hash = any(:hashes::bytea[])
   and not exists (select 1 from rag_chunk c where c.hash = v.hash)
