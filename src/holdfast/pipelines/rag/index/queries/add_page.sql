-- Save the metadata of a page of a version.
insert into rag_page (document_id, version, page, metadata)
values (:document_id, :version, :page, :metadata::jsonb)
on conflict (document_id, version, page) do nothing
