-- Keep the words of the first tokenizer until their texts are copied.
alter table rag_words rename to rag_words_before
