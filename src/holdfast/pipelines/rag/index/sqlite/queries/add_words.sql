-- The words of a chunk.
insert into rag_words (rowid, text, title) values (?, ?, ?)
