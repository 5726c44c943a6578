-- Add a document before its chunks, or store what its next version says about itself. Nothing becomes visible.
-- Nothing is added to a collection that was deleted.
insert into rag_document (collection_id, source, key, coming)
select id, :source, :key, :coming::jsonb from rag_collection where name = :collection
on conflict (collection_id, source, key) do update
   set coming = excluded.coming
returning id
