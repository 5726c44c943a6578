-- Parts of a manifest name documents as they are called now.
update hf_manifest m
   set keys = new.keys
  from unnest(%(submissions)s::bigint[], %(parts)s::bigint[], %(keys)s::json[]) as new (submission, part, keys)
 where m.batch_id = %(batch_id)s
   and m.submission = new.submission
   and m.part = new.part
