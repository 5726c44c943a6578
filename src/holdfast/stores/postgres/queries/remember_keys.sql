-- The manifest names all documents that a batch expects, by the parts of the submits that brought them in.
insert into hf_manifest (batch_id, submission, part, keys)
values (%(batch_id)s, %(submission)s, %(part)s, %(keys)s::json)
    on conflict (batch_id, submission, part) do update
   set keys = (hf_manifest.keys::jsonb || excluded.keys::jsonb)::json
