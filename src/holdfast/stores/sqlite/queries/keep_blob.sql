-- A big value, once for all that refer to it.
insert into hf_blob (hash, media, content, kept_at)
values (?, ?, ?, ?)
    on conflict (hash) do nothing
