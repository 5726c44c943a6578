-- Delete the words of the first tokenizer.
drop table rag_words_before
