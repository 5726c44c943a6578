-- Return the pipelines that were declared.
select name
  from hf_pipeline
 order by id
