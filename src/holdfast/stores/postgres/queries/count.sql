-- How many documents are meant. A condition that is not asked for is left out.
select count(*)
  from hf_document
 where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = %(pipeline)s and b.name = %(batch)s) -- if batch
   and state = 'waiting' -- if waiting
   and state = 'paused' -- if paused
   and state = 'dead' -- if dead
   and state = %(state)s -- if state
   and key = %(key)s -- if key
   and key like %(keys)s -- if keys
   and step_id = (select s.id from hf_step s join hf_pipeline p on p.id = s.pipeline_id where p.name = %(pipeline)s and s.name = %(step)s) -- if step
   and error = %(error)s -- if error
   and reason ilike %(text)s -- if text
   and moved_at < coalesce(%(now)s::timestamptz, now()) - %(idle)s::interval -- if idle
   and (accepted_by is not null) = %(accepted)s::boolean -- if accepted
   and plan_id = %(plan)s -- if plan
