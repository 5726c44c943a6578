-- Add a document before its chunks, or store what its next version says about itself. Nothing becomes visible.
-- If the collection was deleted, its id is null and the insert is ignored.
insert or ignore into rag_document (collection_id, source, key, coming, changed)
values ((select id from rag_collection where name = :collection), :source, :key, :coming, 0)
on conflict (collection_id, source, key) do update
   set coming = excluded.coming
