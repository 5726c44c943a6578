-- Store words in the row of their chunk. A long text is stored apart instead; only chunks that are shown need it.
alter table rag_chunk alter column words set storage main
