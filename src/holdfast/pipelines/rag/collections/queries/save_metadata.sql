-- Save the metadata of a source.
insert into rag_source (collection, source, metadata)
values (:collection, :source, :metadata)
on conflict (collection, source) do update
   set metadata = excluded.metadata
