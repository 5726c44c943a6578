-- Documents that the manifest names and that are not there, by key.
select key.value
  from hf_manifest m
  join json_each(m.keys) key
 where m.batch_id = :batch_id
   and not exists (select 1
                     from hf_document d
                    where d.batch_id = m.batch_id
                      and d.key = key.value)
 order by key.value
