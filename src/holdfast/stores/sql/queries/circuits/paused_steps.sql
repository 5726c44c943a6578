-- Return the steps of a pipeline whose circuits are open.
select s.name
  from hf_circuit c
  join hf_step s on s.id = c.step_id
  join hf_pipeline p on p.id = s.pipeline_id
 where p.name = :pipeline
   and c.opened_at is not null
 order by s.id
