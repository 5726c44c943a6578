-- Add chunks to a version.
insert or fail into rag_chunk (id, document_id, version, position, page, start, stop, hash)
values
/* rows */ (?, ?, ?, ?, ?, ?, ?, ?)
