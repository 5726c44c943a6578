-- Documents go back to a step, as a new generation that reuses what the steps before kept; whoever holds one loses it.
-- What a document that was done kept is served until it is done again.
-- The generation is later than anything that is kept, also where a damaged row says that it is not.
-- A hold that stays the same keeps its mark and its end.
update hf_document
   set state = :state, reason = :parked, accepted_by = null, worker_id = null, worked_by = null,
       due_at = case when :state = 'paused' and state = 'paused' and reason in ('', :parked) then due_at else :due_at end,
       error = case when :state = 'paused' and state = 'paused' and reason in ('', :parked) then error else '' end,
       deadline_at = null, attempts = 0, crashes = 0, fence = fence + 1, moves = moves + 1,
       generation = 1 + max(generation, coalesce((select max(i.generation)
                                                    from hf_item i
                                                   where i.document_id = hf_document.id), 0)),
       plan_id = coalesce(:plan_id, plan_id), step_id = :step_id, cursor = null, moved_at = :now, cleaned_at = null,
       reuses = :reuses,
       serves = case when cleaned_at is null then coalesce(:serves, serves) end
 where id in (select value from json_each(:ids))
