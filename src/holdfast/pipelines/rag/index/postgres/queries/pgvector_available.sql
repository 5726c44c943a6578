-- Return a row if the server has pgvector.
select 1
  from pg_available_extensions
 where name = 'vector'
