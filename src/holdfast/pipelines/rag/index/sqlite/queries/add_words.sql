-- Add the terms and the text of a chunk to the full-text index.
insert into rag_words (rowid, terms, title, text) values (?, ?, ?, ?)
