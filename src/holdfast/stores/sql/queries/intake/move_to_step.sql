-- Move documents from a step that is gone to the start of another. Return their new steps and their plans. Not all steps
-- before may have ended, so nothing is known about them.
update hf_document
   set step_id = (select id from hf_step where pipeline_id = :pipeline_id and name = :new),
       cursor = null, extents = '{"0":1}', totals = null
 where step_id = (select id from hf_step where pipeline_id = :pipeline_id and name = :old)
   and state <> 'running'
returning id, plan_id, step_id
