-- A worker says that it lives; one that was given up stays so.
update hf_worker
   set beat_at = :now
 where id = :id
   and gone_at is null
