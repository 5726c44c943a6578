-- Return one batch, locked until the transaction ends: submits to it take turns, so no key is added twice.
select id, state
  from hf_batch
 where pipeline_id = :pipeline_id
   and name = :name
   for no key update -- on postgresql
