-- A document is gone.
delete from rag_document where id = %(document_id)s
