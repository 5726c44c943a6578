-- Let one session at a time create tables: `if not exists` does not protect from another that creates the same now.
select pg_advisory_xact_lock(hashtext('holdfast document search'))
