-- Pause documents at a step that their pipeline never had: nobody could claim them.
update hf_document
   set state = 'paused', due_at = null, reason = :reason, code = :code, error = '', recoverable = null, moves = moves + 1
 where pipeline_id = :pipeline_id
   and state = 'waiting'
   and step_id not in (select id from hf_step where pipeline_id = :pipeline_id)
