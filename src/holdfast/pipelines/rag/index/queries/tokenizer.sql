-- Return the number of the rules by which terms were made, and the last document that has new ones.
select version, rebuilt from rag_tokenizer
