-- Mark workers as gone that have been silent for long, though nobody waited for them.
update hf_worker
   set gone_at = :now
 where gone_at is null
   and beat_at + lease < :before
