-- Return the ids of the documents that a filter selects, ascending, a slice at a time.
-- On SQLite the "+" prevents the use of indexes in another order: a slice is found by walking on, not by sorting all.
select id
  from hf_document
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and id > :after
   and +batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = :pipeline and b.name = :batch) -- if batch -- on sqlite
   and batch_id = (select b.id from hf_batch b join hf_pipeline p on p.id = b.pipeline_id where p.name = :pipeline and b.name = :batch) -- if batch -- on postgresql
   and +state = 'waiting' -- if waiting -- on sqlite
   and state = 'waiting' -- if waiting -- on postgresql
   and +state = 'paused' -- if paused -- on sqlite
   and state = 'paused' -- if paused -- on postgresql
   and state = 'dead' -- if dead
   and state = :state -- if state
   and key = :key -- if key
   and key glob :keys -- if keys -- on sqlite
   and key like :keys -- if keys -- on postgresql
   and step_id = (select s.id from hf_step s join hf_pipeline p on p.id = s.pipeline_id where p.name = :pipeline and s.name = :step) -- if step
   and error = :error -- if error
   and code = :code -- if code
   and reason like :text escape '\' -- if text -- on sqlite
   and reason ilike :text -- if text -- on postgresql
   and moved_at < :now - :idle::interval -- if idle
   and (accepted_by is not null) = :accepted::boolean -- if accepted
   and plan_id = :plan -- if plan
 order by id
 limit :limit
