-- Documents go back to a step, as a new generation that reuses what the steps before kept; whoever holds one loses it.
-- What a document that was done kept is served until it is done again.
-- The generation is later than anything that is kept, also where a damaged row says that it is not.
-- A hold that stays the same keeps its mark and its end.
update hf_document d
   set state = %(state)s,
       due_at = case when %(state)s = 'waiting' then coalesce(%(now)s::timestamptz, now())
                     when state = 'paused' and reason in ('', %(parked)s) then due_at end,
       error = case when %(state)s = 'paused' and state = 'paused' and reason in ('', %(parked)s) then error else '' end,
       reason = %(parked)s, accepted_by = null, worker_id = null, worked_by = null, deadline_at = null, attempts = 0,
       crashes = 0, fence = fence + 1, moves = moves + 1,
       generation = 1 + greatest(generation, (select max(i.generation) from hf_item i where i.document_id = d.id)),
       plan_id = coalesce(%(plan_id)s::bigint, plan_id), step_id = %(step_id)s, cursor = null,
       moved_at = coalesce(%(now)s::timestamptz, now()), cleaned_at = null, reuses = %(reuses)s::json,
       serves = case when cleaned_at is null then coalesce(%(serves)s::json, serves) end
 where id = any(%(ids)s::bigint[])
