-- How many documents are meant. A condition that is not asked for is left out.
select count(*)
  from hf_document
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = :pipeline and b.name = :batch) -- if batch
   and state = 'waiting' -- if waiting
   and state = 'paused' -- if paused
   and state = 'dead' -- if dead
   and state = :state -- if state
   and key = :key -- if key
   and key glob :keys -- if keys
   and step_id = (select s.id from hf_step s join hf_pipeline p on p.id = s.pipeline_id where p.name = :pipeline and s.name = :step) -- if step
   and error = :error -- if error
   and reason like :text escape '\' -- if text
   and moved_at < :now - :idle -- if idle
   and (accepted_by is not null) = :accepted -- if accepted
   and plan_id = :plan -- if plan
