-- Create the table of words, as schema.sql does.
create virtual table rag_words using fts5 (terms, title, text unindexed, tokenize = 'ascii')
