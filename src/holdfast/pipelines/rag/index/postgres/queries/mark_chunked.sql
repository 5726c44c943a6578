-- Mark a version as the latest: all its chunks are here. A document without a visible version shows it at once.
update rag_document
   set chunked = :version,
       version = coalesce(version, :version),
       kind = case when version is null then coming ->> 'kind' else kind end,
       title = case when version is null then coming ->> 'title' else title end,
       title_terms = case when version is null then coalesce(coming ->> 'title_terms', '') else title_terms end,
       language = case when version is null then coalesce(coming ->> 'language', '') else language end,
       metadata = case when version is null then coming -> 'metadata' else metadata end
 where id = :document_id
