-- Set documents back to a step, as a new generation that reuses what the steps before it kept. A worker that holds one
-- loses it. What a finished document kept is served until it is done again.
-- The new generation is later than anything that is kept, even if the row is damaged.
-- A document that keeps its hold keeps the reason and the end of it.
update hf_document as d
   set state = case when :then::text = 'park' or (:then::text = 'keep_hold' and state = 'paused')
                    then 'paused' else 'waiting' end,
       reason = case when :then::text = 'park' then :reason::text
                     when :then::text = 'keep_hold' and state = 'paused' then reason else '' end,
       code = case when :then::text = 'park' then :code::text
                   when :then::text = 'keep_hold' and state = 'paused' then code else '' end,
       error = case when :then::text = 'keep_hold' and state = 'paused' then error else '' end,
       recoverable = case when :then::text = 'keep_hold' and state = 'paused' then recoverable end,
       due_at = case when :then::text = 'park' then null
                     when :then::text = 'keep_hold' and state = 'paused' then due_at
                     else :now end,
       waits_since = case when :then::text = 'keep_hold' and state = 'paused' then waits_since else :now end,
       accepted_by = null, worker_id = null, worked_by = null, deadline_at = null, attempts = 0,
       crashes = 0, losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0, fence = fence + 1, moves = moves + 1,
       generation = 1 + greatest(generation,
                                 coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       plan_id = coalesce(:plan_id::bigint, plan_id), step_id = :step_id, cursor = null,
       moved_at = :now, cleaned_at = null, reuses = :reuses::json, extents = null, totals = null,
       serves = case when cleaned_at is null then coalesce(:serves::json, serves) end
 where id in :ids::bigint[]
