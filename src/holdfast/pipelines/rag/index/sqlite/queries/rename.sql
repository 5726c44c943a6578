-- A document goes by another key. Searches in memory know it by its number.
update rag_document set key = :key where id = :document_id
