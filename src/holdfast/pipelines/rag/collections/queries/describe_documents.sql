-- Give the documents of a source their new metadata, also the version that is being made.
update rag_document
   set metadata = :metadata::jsonb,
       coming = json_set(coming, '$.metadata', json(:metadata)) -- on sqlite
       coming = jsonb_set(coming, '{metadata}', :metadata::jsonb) -- on postgresql
 where collection_id = (select id from rag_collection where name = :collection)
   and source = :source
   and key is not null
