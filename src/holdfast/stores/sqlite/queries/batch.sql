-- One batch.
select id, state
  from hf_batch
 where pipeline_id = :pipeline_id
   and name = :name
