-- Replace the keys in parts of a manifest.
update hf_manifest as m
   set keys = new.keys
  from rows(:parts) as new (submission bigint, part bigint, keys json)
 where m.batch_id = :batch_id
   and m.submission = new.submission
   and m.part = new.part
