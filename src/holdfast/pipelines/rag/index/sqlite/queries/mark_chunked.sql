-- Mark a version as the latest: all its chunks are here. A document without a visible version shows it at once.
update rag_document
   set chunked = :version,
       version = coalesce(version, :version),
       kind = iif(version is null, json_extract(coming, '$.kind'), kind),
       title = iif(version is null, json_extract(coming, '$.title'), title),
       title_terms = iif(version is null, coalesce(json_extract(coming, '$.title_terms'), ''), title_terms),
       language = iif(version is null, coalesce(json_extract(coming, '$.language'), ''), language),
       metadata = iif(version is null, json_extract(coming, '$.metadata'), metadata),
       changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
