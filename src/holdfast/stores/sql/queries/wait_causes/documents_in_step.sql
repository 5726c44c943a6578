-- Return the documents that have a permit for a step with a limit and are still in it.
select d.id, d.key
  from hf_permit p
  join hf_document d on d.id = p.document_id
 where p.step_id = (select s.id
                      from hf_step s
                      join hf_pipeline l on l.id = s.pipeline_id
                     where l.name = :pipeline
                       and s.name = :step)
   and d.state = 'running'
   and d.fence = p.fence
   and d.step_id = p.step_id
 order by d.id
