-- Record the last document whose words were made again.
update rag_tokenizer set rebuilt = :rebuilt
