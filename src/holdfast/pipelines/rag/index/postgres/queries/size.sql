-- About how many chunks there are: as the database's own statistics have it, or counted where there are none yet.
select case when reltuples > 0 then reltuples::bigint else (select greatest(count(*), 1) from rag_chunk) end
  from pg_class
 where oid = 'rag_chunk'::regclass
