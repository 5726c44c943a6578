-- Count deleted documents in their batch.
update hf_batch
   set gone_done = gone_done + :done, gone_dead = gone_dead + :dead, gone_cancelled = gone_cancelled + :cancelled
 where id = :batch_id
