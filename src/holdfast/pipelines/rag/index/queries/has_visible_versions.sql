-- Return a row if a vector space has a visible version, by the records of the database.
select 1
  from rag_published p
  join rag_document d on d.id = p.document_id and d.version = p.version
 where p.space_id = :space_id
 limit 1
