-- Give the documents of a source their new metadata, also the version that is being made. What the files say about
-- themselves stays, unless the source says it, too.
update rag_document
   set metadata = json_patch(coalesce(json_extract(coming, '$.properties'), '{}'), :metadata), -- on sqlite
   set metadata = coalesce(coming -> 'properties', '{}'::jsonb) || :metadata::jsonb, -- on postgresql
       coming = json_set(coming, '$.metadata', json_patch(coalesce(json_extract(coming, '$.properties'), '{}'), :metadata)) -- on sqlite
       coming = jsonb_set(coming, '{metadata}', coalesce(coming -> 'properties', '{}'::jsonb) || :metadata::jsonb) -- on postgresql
 where collection_id = (select id from rag_collection where name = :collection)
   and source = :source
   and key is not null
