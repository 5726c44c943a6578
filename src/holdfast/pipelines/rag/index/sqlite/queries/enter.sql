-- A document is entered before its chunks. Nothing of it is seen by that: what it says of itself waits for its version.
-- Nothing is entered into a collection that is not there any more: its number is null, and that is ignored.
insert or ignore into rag_document (collection_id, source, key, coming, changed)
values ((select id from rag_collection where name = :collection), :source, :key, :coming, 0)
on conflict (collection_id, source, key) do update
   set coming = excluded.coming
