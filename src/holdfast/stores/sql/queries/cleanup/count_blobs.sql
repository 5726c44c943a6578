-- Count the large values that no item refers to.
select count(*)
  from hf_blob b
 where b.kept_at < :now - :age::interval
   and not exists (select 1 from hf_item i where i.blob_hash = b.hash)
