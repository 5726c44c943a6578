-- A version is complete in words. Where none was seen yet, this one is seen at once.
update rag_document
   set chunked = %(version)s,
       version = coalesce(version, %(version)s),
       kind = case when version is null then coming ->> 'kind' else kind end,
       title = case when version is null then coming ->> 'title' else title end,
       metadata = case when version is null then coming -> 'metadata' else metadata end
 where id = %(document_id)s
