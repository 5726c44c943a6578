-- A version is complete in words. Where none was seen yet, this one is seen at once.
update rag_document
   set chunked = :version,
       version = coalesce(version, :version),
       kind = iif(version is null, json_extract(coming, '$.kind'), kind),
       title = iif(version is null, json_extract(coming, '$.title'), title),
       metadata = iif(version is null, json_extract(coming, '$.metadata'), metadata),
       changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
