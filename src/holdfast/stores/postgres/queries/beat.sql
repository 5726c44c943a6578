-- A worker says that it lives; one that was given up stays so.
update hf_worker
   set beat_at = coalesce(%(now)s::timestamptz, now())
 where id = %(id)s
   and gone_at is null
