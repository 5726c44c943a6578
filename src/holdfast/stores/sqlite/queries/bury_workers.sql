-- Workers that are silent, or known to be gone, will not be listened to again.
update hf_worker
   set gone_at = :now
 where gone_at is null
   and (beat_at + lease < :now or id in (select value from json_each(:gone)))
