-- List all files of a source, also those that are gone.
select key, size, mtime_ns, hash, looked_at, etag, times
  from rag_file
 where collection = :collection
   and source = :source
