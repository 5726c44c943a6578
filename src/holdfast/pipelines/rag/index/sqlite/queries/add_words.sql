-- Add the text of a chunk to the full-text index.
insert into rag_words (rowid, text, title) values (?, ?, ?)
