-- Record that all documents of a batch have ended after its deadline.
update hf_batch
   set expired_at = :now
 where id = :batch_id
