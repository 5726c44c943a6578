-- Big values go, if still no item refers to them. One that a commit is just keeping again is locked by it, and is kept
-- from this moment then (see keep_blob.sql): it is passed over, or found too young, whoever comes first.
delete from hf_blob
 where hash = any(array(select b.hash
                          from hf_blob b
                         where b.hash = any(%(hashes)s::bytea[])
                           and b.kept_at < coalesce(%(now)s::timestamptz, now()) - interval '1 day'
                           and not exists (select 1 from hf_item i where i.blob_hash = b.hash)
                         order by b.hash
                           for update skip locked))
