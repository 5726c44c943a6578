-- Return a row if this pipeline has a plan with this id and these steps.
select 1
  from hf_plan p
  join hf_pipeline l on l.id = p.pipeline_id
 where p.id = :plan_id
   and p.digest = :digest
   and l.id = :pipeline_id
   and l.name = :pipeline
