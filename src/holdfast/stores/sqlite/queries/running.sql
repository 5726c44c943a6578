-- How many documents workers hold.
select count(*)
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'running'
   and (:batch_id is null or batch_id = :batch_id)
