-- Return the parts of a manifest that contain any of these keys. It reads all of the manifest.
select m.submission, m.part, m.keys::text
  from hf_manifest m
 where m.batch_id = :batch_id
   and exists (select 1
                 from json_each(m.keys) as key -- on sqlite
                 from json_array_elements_text(m.keys) as key (value) -- on postgresql
                where key.value in :keys::text[])
