-- Workers that were silent for long are given up, though nobody missed them.
update hf_worker
   set gone_at = coalesce(%(now)s::timestamptz, now())
 where gone_at is null
   and beat_at + lease < %(before)s
