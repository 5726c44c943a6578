-- Return all steps that a pipeline ever had.
select name, id
  from hf_step
 where pipeline_id = :pipeline_id
