-- Record a heartbeat. A worker that was declared gone stays gone.
update hf_worker
   set beat_at = :now
 where id = :id
   and gone_at is null
