-- One batch by the names that people use, and the report it left.
select b.id, b.pipeline_id, b.state, b.report, b.created_at
  from hf_batch b
  join hf_pipeline p on p.id = b.pipeline_id
 where p.name = :pipeline
   and b.name = :batch
