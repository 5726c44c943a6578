-- A worker leaves.
update hf_worker
   set gone_at = coalesce(%(now)s::timestamptz, now())
 where id = %(id)s
