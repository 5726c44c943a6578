-- A big value, once for all that refer to it.
insert into hf_blob (hash, media, content)
values (%s, %s, %s)
    on conflict (hash) do nothing
