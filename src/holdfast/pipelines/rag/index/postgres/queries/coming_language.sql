-- Return the language of the version of a document that is being added.
select coalesce(coming ->> 'language', language)
  from rag_document
 where id = :document_id
