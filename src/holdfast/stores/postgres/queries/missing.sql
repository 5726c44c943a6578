-- Documents that the manifest names and that are not there, by key.
select key.value
  from hf_manifest m
  cross join lateral json_array_elements_text(m.keys) as key (value)
 where m.batch_id = %(batch_id)s
   and not exists (select 1
                     from hf_document d
                    where d.batch_id = m.batch_id
                      and d.key = key.value)
 order by key.value collate "C"
