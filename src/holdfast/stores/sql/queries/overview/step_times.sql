-- Return how long the bodies of each step took so far.
select s.name, p.documents, p.seconds
  from hf_step_time p
  join hf_step s on s.id = p.step_id
 where s.pipeline_id = (select id from hf_pipeline where name = :pipeline)
 order by s.id
