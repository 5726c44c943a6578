-- Record that all words were made by new rules.
update rag_tokenizer set version = :version, rebuilt = 0
