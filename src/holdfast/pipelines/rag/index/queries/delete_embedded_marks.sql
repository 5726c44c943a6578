-- Hide a document from vector searches, for every model.
delete from rag_meaning where document_id = :document_id
