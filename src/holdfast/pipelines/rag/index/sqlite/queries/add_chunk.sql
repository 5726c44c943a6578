-- A chunk of a version that is being made.
insert or fail into rag_chunk (id, document_id, version, position, page, start, stop, hash)
values
/* rows */ (?, ?, ?, ?, ?, ?, ?, ?)
