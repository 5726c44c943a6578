-- A document means nothing any more.
delete from rag_meaning where document_id = %(document_id)s
