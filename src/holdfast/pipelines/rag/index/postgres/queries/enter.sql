-- A document is entered before its chunks. Nothing of it is seen by that: what it says of itself waits for its version.
insert into rag_document (collection_id, source, key, coming)
values ((select id from rag_collection where name = %(collection)s), %(source)s, %(key)s, %(coming)s::jsonb)
on conflict (collection_id, source, key) do update
   set coming = excluded.coming
returning id
