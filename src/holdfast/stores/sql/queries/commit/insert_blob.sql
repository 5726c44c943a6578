-- Store a large value once for all items that refer to it. A value that is stored again after a while becomes young
-- again. One whose content was damaged is repaired. On PostgreSQL its row is locked in any case, so a cleanup that does
-- not see the new item yet leaves it alone.
insert into hf_blob (hash, media, content, kept_at)
values (:hash, :media, :content, :now)
    on conflict (hash) do update
   set kept_at = excluded.kept_at, content = excluded.content, media = excluded.media
 where hf_blob.kept_at < excluded.kept_at - :hour::interval
    or hf_blob.content <> excluded.content
    or hf_blob.media <> excluded.media
