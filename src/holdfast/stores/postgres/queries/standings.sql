-- Where documents of a pipeline stand, the last moved first. A condition that is not asked for is left out.
select *
  from hf_standing
 where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = %(pipeline)s and b.name = %(batch)s) -- if batch
   and state = 'waiting' -- if waiting
   and state = 'paused' -- if paused
   and state = 'dead' -- if dead
   and state = %(state)s -- if state
   and key = %(key)s -- if key
   and key like %(keys)s -- if keys
   and step = %(step)s -- if step
   and error = %(error)s -- if error
   and reason ilike %(text)s -- if text
   and moved_at < coalesce(%(now)s::timestamptz, now()) - %(idle)s::interval -- if idle
   and (accepted_by <> '') = %(accepted)s::boolean -- if accepted
   and plan_id = %(plan)s -- if plan
 order by moved_at desc, id desc
 limit %(limit)s
