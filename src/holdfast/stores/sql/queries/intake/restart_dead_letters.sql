-- Set dead letters of another order back to the start, unless their batch is closed: what they kept would be in the way.
-- The new generation is later than anything that is kept, even if the row is damaged.
update hf_document as d
   set plan_id = :plan_id, step_id = :step_id, cursor = null, moves = moves + 1,
       generation = 1 + greatest(generation,
                                 coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       reuses = null, extents = null, totals = null, moved_at = :now
 where pipeline_id = :pipeline_id
   and plan_id in :others::bigint[]
   and state = 'dead'
   and batch_id not in (select id from hf_batch where state = 'closed')
