-- Estimate the number of chunks from the statistics of the database; count them if there are none yet.
select case when reltuples > 0 then reltuples::bigint else (select greatest(count(*), 1) from rag_chunk) end
  from pg_class
 where oid = 'rag_chunk'::regclass
