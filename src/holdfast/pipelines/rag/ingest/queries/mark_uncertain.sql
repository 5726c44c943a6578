-- Forget the content of a file that is known, so that the next scan takes it as changed.
update rag_file
   set hash = '',
       size = -1,
       mtime_ns = 0,
       etag = '',
       times = times + 1
 where collection = :collection
   and source = :source
   and key = :key
   and hash is not null
