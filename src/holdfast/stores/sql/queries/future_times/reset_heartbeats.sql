-- Set heartbeats that are in the future to now: a worker that is dead has one lease left, and a live one sends another.
update hf_worker
   set beat_at = :now
 where gone_at is null
   and beat_at > :now + :tolerance::interval
