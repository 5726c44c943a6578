-- Copy the texts of all chunks. Their terms follow.
insert into rag_words (rowid, terms, title, text) select rowid, '', '', text from rag_words_before
