-- A big value, once for all that refer to it. One that is kept again after a while is young again.
insert into hf_blob (hash, media, content, kept_at)
values (?, ?, ?, ?)
    on conflict (hash) do update
   set kept_at = excluded.kept_at
 where hf_blob.kept_at < excluded.kept_at - 3600000000
