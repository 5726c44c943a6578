-- Add to the number of documents that a batch expects: every document that was ever submitted to it.
update hf_batch
   set expected = expected + :count
 where id = :batch_id
