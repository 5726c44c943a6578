-- Give documents a temporary key, so that others can get their keys in the same transaction.
update hf_document
   set key = :aside || id
 where id in :ids::bigint[]
