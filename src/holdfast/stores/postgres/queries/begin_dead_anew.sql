-- Dead letters of another order, but in batches that are closed, go back to the start: redriven, they would trip over what they kept.
-- The generation is later than anything that is kept, also where a damaged row says that it is not.
update hf_document d
   set plan_id = %(plan_id)s, step_id = %(step_id)s, cursor = null, moves = moves + 1,
       generation = 1 + greatest(generation, (select max(i.generation) from hf_item i where i.document_id = d.id)),
       reuses = null, moved_at = coalesce(%(now)s::timestamptz, now())
 where pipeline_id = %(pipeline_id)s
   and plan_id = any(%(others)s::bigint[])
   and state = 'dead'
   and batch_id not in (select id from hf_batch where state = 'closed')
