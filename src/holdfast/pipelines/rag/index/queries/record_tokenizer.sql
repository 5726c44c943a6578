-- Record by which rules the words are made.
insert into rag_tokenizer (version) values (:version)
