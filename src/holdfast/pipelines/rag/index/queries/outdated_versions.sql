-- List versions in a vector space that are neither visible nor the latest.
select p.document_id, p.version
  from rag_published p
  left join rag_document d on d.id = p.document_id
 where p.space_id = :space_id
   and p.version not in (coalesce(d.version, -1), coalesce(d.chunked, -1))
 limit :limit
