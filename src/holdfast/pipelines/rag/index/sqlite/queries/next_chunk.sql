-- The last number of a chunk that is taken, and the position at which a version goes on.
select (select coalesce(max(id), 0) from rag_chunk),
       (select coalesce(max(position) + 1, 0) from rag_chunk where document_id = :document_id and version = :version)
