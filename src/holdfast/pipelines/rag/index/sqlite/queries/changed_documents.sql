-- List the documents that changed since the last read, in the order of the changes.
select id, changed from rag_document where changed > :since order by changed
