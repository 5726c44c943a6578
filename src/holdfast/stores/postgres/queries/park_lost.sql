-- Documents that stand at a step that their pipeline never had are parked: nobody could claim them.
update hf_document
   set state = 'paused', due_at = null, reason = %(reason)s, error = '', moves = moves + 1
 where pipeline_id = %(pipeline_id)s
   and state = 'waiting'
   and step_id not in (select id from hf_step where pipeline_id = %(pipeline_id)s)
