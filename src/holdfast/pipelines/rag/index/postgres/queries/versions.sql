-- The versions of documents that are seen, or are to be seen next.
select id, version, chunked from rag_document where id = any(%(documents)s::bigint[])
