-- A document goes by another key.
update rag_document set key = %(key)s where id = %(document_id)s
