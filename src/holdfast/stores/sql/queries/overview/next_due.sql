-- Return how long until the next waiting document is due.
select min(due_at) - :now
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'waiting'
   and step_id in :step_ids::bigint[]
   and (:batch::text is null
        or batch_id = (select id from hf_batch where pipeline_id = :pipeline_id and name = :batch::text))
