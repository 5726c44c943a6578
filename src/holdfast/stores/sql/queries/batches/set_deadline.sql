-- Set the deadline of a batch, or remove it. Documents that are open at the new deadline are ended.
update hf_batch
   set deadline_at = :deadline_at::timestamptz, deadline_action = :action, expired_at = null
 where id = :batch_id
   and state <> 'closed'
