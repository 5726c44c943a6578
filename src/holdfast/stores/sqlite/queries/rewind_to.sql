-- Documents go back to a step, as a new generation that reuses what the steps before kept; whoever holds one loses it.
-- What a document that was done kept is served until it is done again.
update hf_document
   set state = :state, due_at = :due_at, reason = :parked, error = '', accepted_by = null, worker_id = null,
       deadline_at = null, attempts = 0, crashes = 0, fence = fence + 1, generation = generation + 1, moves = moves + 1,
       plan_id = coalesce(:plan_id, plan_id), step_id = :step_id, cursor = null, moved_at = :now, cleaned_at = null,
       reuses = :reuses,
       serves = case when cleaned_at is not null then null
                     when state <> 'done' then serves
                     else (select json_group_object(s.id, coalesce(json_extract(hf_document.reuses, '$."' || s.id || '"'),
                                                                   hf_document.generation))
                             from hf_step s
                            where s.pipeline_id = hf_document.pipeline_id) end
 where id in (select value from json_each(:ids))
