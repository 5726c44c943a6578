-- Holds a step until the transaction ends: those who ask to be let in take turns.
select id
  from hf_step
 where id = %(step_id)s
   for no key update
