-- Cancel documents, whatever their state, and record which rows of effects they have left. A worker that holds one loses
-- it. They stand at the first step afterwards, so that they can only begin again: their rows are gone.
update hf_document as d
   set state = 'cancelled', step_id = :step_id, plan_id = :plan_id, cursor = null,
       worker_id = null, worked_by = coalesce(d.worker_id, d.worked_by), due_at = null, deadline_at = null,
       fence = d.fence + 1, moves = d.moves + 1, reason = :reason, code = :code, error = '', recoverable = null,
       accepted_by = null, effects = withdrawn.effects
  from rows(:withdrawn) as withdrawn (id bigint, effects json)
 where d.id = withdrawn.id
   and d.id in :withdrawn_id::bigint[] -- on postgresql
