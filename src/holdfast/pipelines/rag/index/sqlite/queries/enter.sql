-- A document is entered before its chunks. Nothing of it is seen by that.
insert into rag_document (collection_id, source, key, kind, title, metadata, changed)
values ((select id from rag_collection where name = :collection), :source, :key, :kind, :title, :metadata, 0)
on conflict (collection_id, source, key) do update
   set kind = excluded.kind, title = excluded.title, metadata = excluded.metadata
returning id
