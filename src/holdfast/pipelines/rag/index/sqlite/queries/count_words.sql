-- Count the chunks that have a stem.
select term, doc from rag_word where term in (select value from json_each(:stems))
