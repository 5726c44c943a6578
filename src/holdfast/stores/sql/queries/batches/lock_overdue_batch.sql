-- Return a batch, locked until the transaction ends, if its deadline has still passed and nobody has ended it since.
select name, state, deadline_at, deadline_action
  from hf_batch
 where id = :batch_id
   and deadline_at <= :now
   and expired_at is null
   and state <> 'closed'
   for no key update -- on postgresql
