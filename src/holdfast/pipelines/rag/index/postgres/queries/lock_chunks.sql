-- Block new chunks until the end of the transaction. Otherwise a session whose chunk is not committed yet finds its
-- vector known, and the vector is deleted before the chunk is committed.
lock table rag_chunk in share mode
