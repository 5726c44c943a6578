-- A worker leaves.
update hf_worker
   set gone_at = :now
 where id = :id
