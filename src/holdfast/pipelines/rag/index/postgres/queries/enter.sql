-- A document is entered before its chunks. Nothing of it is seen by that: what it says of itself waits for its version.
-- Nothing is entered into a collection that is not there any more.
insert into rag_document (collection_id, source, key, coming)
select id, %(source)s, %(key)s, %(coming)s::jsonb from rag_collection where name = %(collection)s
on conflict (collection_id, source, key) do update
   set coming = excluded.coming
returning id
