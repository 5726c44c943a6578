-- Return large values that no item refers to and that are old enough, by hash.
select b.hash
  from hf_blob b
 where b.hash > :after
   and b.kept_at < :now - :age::interval
   and not exists (select 1 from hf_item i where i.blob_hash = b.hash)
 order by b.hash
 limit :limit
