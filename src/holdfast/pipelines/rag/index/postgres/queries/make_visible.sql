-- Make the latest version visible, with what it says about itself.
update rag_document
   set version = chunked,
       kind = case when (coming ->> 'version')::bigint = chunked then coming ->> 'kind' else kind end,
       title = case when (coming ->> 'version')::bigint = chunked then coming ->> 'title' else title end,
       title_terms = case when (coming ->> 'version')::bigint = chunked then coalesce(coming ->> 'title_terms', '') else title_terms end,
       language = case when (coming ->> 'version')::bigint = chunked then coalesce(coming ->> 'language', '') else language end,
       metadata = case when (coming ->> 'version')::bigint = chunked then coming -> 'metadata' else metadata end
 where id = :document_id
   and chunked is not null
returning version
