-- One batch, held until the transaction ends: submits to it take turns, so no key is new twice.
select id, state
  from hf_batch
 where pipeline_id = %(pipeline_id)s
   and name = %(name)s
   for no key update
