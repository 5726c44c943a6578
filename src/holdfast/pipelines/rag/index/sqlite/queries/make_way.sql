-- A document that is seen no more makes way for one that goes by its key from now on.
delete from rag_document where id = :document_id
