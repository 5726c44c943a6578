-- The parts of a manifest that name any of these keys. It walks all of it.
select submission, part, keys
  from hf_manifest
 where batch_id = :batch_id
   and exists (select 1
                 from json_each(hf_manifest.keys) key
                where key.value in (select value from json_each(:keys)))
