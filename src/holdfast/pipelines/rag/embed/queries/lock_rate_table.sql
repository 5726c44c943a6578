-- Let one session of PostgreSQL at a time create the table: two at once would both create it, and one would fail.
select pg_advisory_xact_lock(hashtext('rag_meter'))
