-- Big values of a day ago or earlier that no item refers to, by hash.
select b.hash
  from hf_blob b
 where b.hash > %(after)s
   and b.kept_at < coalesce(%(now)s::timestamptz, now()) - interval '1 day'
   and not exists (select 1 from hf_item i where i.blob_hash = b.hash)
 order by b.hash
 limit %(limit)s
