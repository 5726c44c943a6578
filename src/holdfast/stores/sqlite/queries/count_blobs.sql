-- How many big values no item refers to.
select count(*)
  from hf_blob b
 where b.kept_at < :before
   and not exists (select 1 from hf_item i where i.blob_hash = b.hash)
