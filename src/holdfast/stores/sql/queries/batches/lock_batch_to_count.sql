-- Return the state of a batch and how many documents were submitted to it, locked so that no submit adds to it.
select state, expected
  from hf_batch
 where id = :batch_id
   for no key update -- on postgresql
