-- Add the one document of a capsule to the manifest of its batch.
insert into hf_manifest (batch_id, submission, part, keys)
values (:batch_id, :submission, 0, json_array(:key))
