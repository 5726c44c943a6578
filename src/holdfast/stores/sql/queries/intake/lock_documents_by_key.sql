-- Return the documents of a batch that have these keys, locked until they are renamed.
select key, id, state
  from hf_document
 where batch_id = :batch_id
   and key in :keys::text[]
 order by id
   for update -- on postgresql
