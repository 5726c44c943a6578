-- The manifest names all documents that a batch expects, by the parts of the submits that brought them in.
insert into hf_manifest (batch_id, submission, part, keys)
values (:batch_id, :submission, :part, :keys)
    on conflict (batch_id, submission, part) do update
   set keys = (select json_group_array(value)
                 from (select value from json_each(hf_manifest.keys)
                       union all
                       select value from json_each(excluded.keys)))
