-- Return the keys that the manifest names and that have no document.
select key.value
  from hf_manifest m
  join json_each(m.keys) as key -- on sqlite
 cross join lateral json_array_elements_text(m.keys) as key (value) -- on postgresql
 where m.batch_id = :batch_id
   and not exists (select 1
                     from hf_document d
                    where d.batch_id = m.batch_id
                      and d.key = key.value)
 order by key.value -- on sqlite
 order by key.value collate "C" -- on postgresql
