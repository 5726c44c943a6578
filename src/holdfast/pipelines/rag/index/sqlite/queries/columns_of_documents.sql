-- List the columns of the table of documents.
select name from pragma_table_info('rag_document')
