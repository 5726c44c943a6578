-- Delete a document.
delete from rag_document where id = :document_id
