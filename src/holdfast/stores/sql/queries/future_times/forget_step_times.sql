-- Forget when steps worked last, if that is in the future: when that time has come, it would be false evidence that they
-- work for other documents.
update hf_step_time
   set worked_at = null
 where worked_at > :now + :tolerance::interval
   and step_id in (select id from hf_step where pipeline_id = :pipeline_id)
