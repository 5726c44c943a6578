-- About how many chunks there are.
select greatest(reltuples, 1)::bigint from pg_class where oid = 'rag_chunk'::regclass
