-- List the languages of documents.
select language from rag_language order by language
