-- Change the key of a document. Its id stays, so caches of vectors stay valid.
update rag_document set key = :key where id = :document_id
