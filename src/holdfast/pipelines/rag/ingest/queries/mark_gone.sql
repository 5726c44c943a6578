-- Save that a file is gone: it has no hash any more, and the count of its absences grows.
insert into rag_file (collection, source, key, size, mtime_ns, looked_at, times)
values (:collection, :source, :key, 0, 0, 0, 1)
on conflict (collection, source, key) do update
   set hash = null,
       times = rag_file.times + 1
