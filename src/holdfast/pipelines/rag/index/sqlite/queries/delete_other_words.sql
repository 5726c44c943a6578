-- Delete the words of all versions of a document except one.
delete from rag_words
 where rowid in (select id from rag_chunk where document_id = :document_id and version is not :version)
