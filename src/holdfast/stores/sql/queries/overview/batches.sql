-- Return the batches of a pipeline.
select id, name, state, created_at, expected, gone_done, gone_dead, gone_cancelled
  from hf_batch
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
 order by id
