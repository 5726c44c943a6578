-- A big value, once for all that refer to it. One that is kept again after a while is young again; its row is locked in
-- any case, so that a cleanup that does not see the new item yet leaves it alone.
insert into hf_blob (hash, media, content, kept_at)
values (%s, %s, %s, coalesce(%s::timestamptz, now()))
    on conflict (hash) do update
   set kept_at = excluded.kept_at
 where hf_blob.kept_at < excluded.kept_at - interval '1 hour'
