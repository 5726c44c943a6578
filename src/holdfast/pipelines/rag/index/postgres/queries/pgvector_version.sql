-- Return the version of pgvector in this database.
select extversion
  from pg_extension
 where extname = 'vector'
