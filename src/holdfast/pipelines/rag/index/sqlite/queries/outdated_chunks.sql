-- The chunks of every version but one.
delete from rag_chunk where document_id = :document_id and version is not :version
