-- Lock a step until the transaction ends: workers that ask for permits take turns.
select id
  from hf_step
 where id = :step_id
   for no key update
