-- Big values go, if still no item refers to them.
delete from hf_blob
 where hash = :hash
   and kept_at < :before
   and not exists (select 1 from hf_item i where i.blob_hash = hash)
