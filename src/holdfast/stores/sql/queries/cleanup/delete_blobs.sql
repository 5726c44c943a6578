-- Delete large values in a range of hashes if no item refers to them. A commit that stores one again locks it and makes
-- it young (see insert_blob.sql): this statement skips it or finds it too young, whichever comes first.
delete from hf_blob
 where hash in (select b.hash -- on sqlite
 where hash = any(array(select b.hash -- on postgresql
                  from hf_blob b
                 where b.hash > :after
                   and b.hash <= :last
                   and b.kept_at < :now - :age::interval
                   and not exists (select 1 from hf_item i where i.blob_hash = b.hash)
                 order by b.hash
                   for update skip locked) -- on postgresql
               )
