-- Add keys to the manifest, which names all documents that a batch expects, by the parts of the submits they came in.
insert into hf_manifest (batch_id, submission, part, keys)
values (:batch_id, :submission, :part, :keys::json)
    on conflict (batch_id, submission, part) do update
   set keys = (select json_group_array(value) -- on sqlite
                 from (select value from json_each(hf_manifest.keys) -- on sqlite
                       union all -- on sqlite
                       select value from json_each(excluded.keys))) -- on sqlite
   set keys = (hf_manifest.keys::jsonb || excluded.keys::jsonb)::json -- on postgresql
