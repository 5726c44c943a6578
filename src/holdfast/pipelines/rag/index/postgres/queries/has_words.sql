-- Return a row if there are chunks.
select 1 from rag_chunk limit 1
