-- The batch of a capsule expects the one document that came with it.
insert into hf_manifest (batch_id, submission, part, keys)
values (:batch_id, :submission, 0, json_array(:key))
