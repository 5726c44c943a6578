-- List the columns of the table of words.
select name from pragma_table_info('rag_words')
