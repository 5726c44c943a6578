-- Seal a batch: it takes no new documents.
update hf_batch
   set state = 'sealed', sealed_at = :now
 where id = :batch_id
   and state = 'open'
