-- Save what is known of a file.
insert into rag_file (collection, source, key, size, mtime_ns, hash, looked_at, etag)
values (:collection, :source, :key, :size, :mtime_ns, :hash, :looked_at, :etag)
on conflict (collection, source, key) do update
   set size = excluded.size,
       mtime_ns = excluded.mtime_ns,
       hash = excluded.hash,
       looked_at = excluded.looked_at,
       etag = excluded.etag
