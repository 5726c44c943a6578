-- Documents that stand at a step that is gone go on at the start of another. Answers where, and their plans.
update hf_document
   set step_id = (select id from hf_step where pipeline_id = :pipeline_id and name = :new),
       cursor = null
 where step_id = (select id from hf_step where pipeline_id = :pipeline_id and name = :old)
   and state <> 'running'
returning id, plan_id, step_id
