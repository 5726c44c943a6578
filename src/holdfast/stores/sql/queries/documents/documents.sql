-- Return the status of the documents that a filter selects, the last moved first.
select *
  from hf_document_status
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = :pipeline and b.name = :batch) -- if batch
   and state = 'waiting' -- if waiting
   and state = 'paused' -- if paused
   and state = 'dead' -- if dead
   and state = :state -- if state
   and key = :key -- if key
   and key glob :keys -- if keys -- on sqlite
   and key like :keys -- if keys -- on postgresql
   and step = :step -- if step
   and error = :error -- if error
   and code = :code -- if code
   and reason like :text escape '\' -- if text -- on sqlite
   and reason ilike :text -- if text -- on postgresql
   and moved_at < :now - :idle::interval -- if idle
   and (accepted_by <> '') = :accepted::boolean -- if accepted
   and plan_id = :plan -- if plan
 order by moved_at desc, id desc
 limit :limit
