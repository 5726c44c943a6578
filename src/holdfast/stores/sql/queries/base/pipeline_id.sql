-- Return the id of a pipeline.
select id
  from hf_pipeline
 where name = :name
