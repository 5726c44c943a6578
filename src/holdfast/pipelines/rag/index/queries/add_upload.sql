-- Record that a version of a document is in a vector space.
insert into rag_published (space_id, document_id, version)
values (:space_id, :document_id, :version)
on conflict do nothing
