-- The chunks of every version but one.
delete from rag_chunk where document_id = %(document_id)s and version is distinct from %(version)s
