-- Mark a worker as gone.
update hf_worker
   set gone_at = :now
 where id = :id
