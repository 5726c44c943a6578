-- Workers that are silent, or known to be gone, will not be listened to again.
update hf_worker
   set gone_at = coalesce(%(now)s::timestamptz, now())
 where gone_at is null
   and (beat_at + lease < coalesce(%(now)s::timestamptz, now()) or id = any(%(gone)s::bigint[]))
