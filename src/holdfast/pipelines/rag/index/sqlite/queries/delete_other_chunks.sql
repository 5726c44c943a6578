-- Delete the chunks of all versions of a document except one.
delete from rag_chunk where document_id = :document_id and version is not :version
