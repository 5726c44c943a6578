-- Replace the terms of a chunk.
update rag_words set terms = ?, title = ? where rowid = ?
