-- Changed documents begin anew, as a new generation. A worker that holds one loses it.
-- What a document that was done kept is served until it is done again.
update hf_document
   set payload = new.value ->> 1, fingerprint = new.value ->> 2, priority = new.value ->> 3,
       plan_id = :plan_id, step_id = :step_id, submission = :submission, part = :part,
       generation = generation + 1, fence = fence + 1, moves = moves + 1, cursor = null, reuses = null,
       serves = case when cleaned_at is not null then null
                     when state <> 'done' then serves
                     else (select json_group_object(s.id, coalesce(json_extract(hf_document.reuses, '$."' || s.id || '"'),
                                                                   hf_document.generation))
                             from hf_step s
                            where s.pipeline_id = hf_document.pipeline_id) end,
       state = 'waiting', worker_id = null, attempts = 0, crashes = 0, reason = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = :now, deadline_at = null, moved_at = :now
  from json_each(:documents) as new
 where batch_id = :batch_id
   and hf_document.key = new.value ->> 0
