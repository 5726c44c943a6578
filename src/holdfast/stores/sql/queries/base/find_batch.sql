-- Return one batch by the names that people use, with its report.
select b.id, b.pipeline_id, b.state, b.report::text, b.created_at
  from hf_batch b
  join hf_pipeline p on p.id = b.pipeline_id
 where p.name = :pipeline
   and b.name = :batch
