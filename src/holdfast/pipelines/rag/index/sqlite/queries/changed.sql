-- The documents that changed since, in their order.
select id, changed from rag_document where changed > :since order by changed
