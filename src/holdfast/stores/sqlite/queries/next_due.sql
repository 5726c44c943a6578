-- How long until the next waiting document is due.
select min(due_at) - :now
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'waiting'
   and step_id in (select value from json_each(:step_ids))
   and (:batch_id is null or batch_id = :batch_id)
