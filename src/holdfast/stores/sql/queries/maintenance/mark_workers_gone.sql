-- Mark workers as gone that are silent, or known to be gone.
update hf_worker
   set gone_at = :now
 where gone_at is null
   and (beat_at + lease < :now or id in :gone::bigint[])
