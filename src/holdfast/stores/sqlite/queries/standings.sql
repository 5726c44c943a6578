-- Where documents of a pipeline stand, the last moved first. A condition that is not asked for is left out.
select *
  from hf_standing
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = :pipeline and b.name = :batch) -- if batch
   and state = 'waiting' -- if waiting
   and state = 'paused' -- if paused
   and state = 'dead' -- if dead
   and state = :state -- if state
   and key = :key -- if key
   and key glob :keys -- if keys
   and step = :step -- if step
   and error = :error -- if error
   and reason like :text escape '\' -- if text
   and moved_at < :now - :idle -- if idle
   and (accepted_by <> '') = :accepted -- if accepted
   and plan_id = :plan -- if plan
 order by moved_at desc, id desc
 limit :limit
