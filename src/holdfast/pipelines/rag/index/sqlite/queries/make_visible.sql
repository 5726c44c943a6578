-- Make the latest version visible, with what it says about itself.
update rag_document
   set version = chunked,
       kind = iif(json_extract(coming, '$.version') = chunked, json_extract(coming, '$.kind'), kind),
       title = iif(json_extract(coming, '$.version') = chunked, json_extract(coming, '$.title'), title),
       title_terms = iif(json_extract(coming, '$.version') = chunked, coalesce(json_extract(coming, '$.title_terms'), ''), title_terms),
       language = iif(json_extract(coming, '$.version') = chunked, coalesce(json_extract(coming, '$.language'), ''), language),
       metadata = iif(json_extract(coming, '$.version') = chunked, json_extract(coming, '$.metadata'), metadata),
       changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where id = :document_id
