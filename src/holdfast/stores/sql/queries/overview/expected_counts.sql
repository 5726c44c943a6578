-- Return how many documents were ever submitted, and how many of them were deleted.
select id, expected, gone_done, gone_dead, gone_cancelled
  from hf_batch
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and (:batch::text is null or name = :batch::text)
