-- One pipeline.
select id
  from hf_pipeline
 where name = :name
