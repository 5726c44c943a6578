-- Dead letters of another order, but in batches that are closed, go back to the start: redriven, they would trip over what they kept.
-- The generation is later than anything that is kept, also where a damaged row says that it is not.
update hf_document
   set plan_id = :plan_id, step_id = :step_id, cursor = null, moves = moves + 1,
       generation = 1 + max(generation, coalesce((select max(i.generation)
                                                    from hf_item i
                                                   where i.document_id = hf_document.id), 0)),
       reuses = null, moved_at = :now
 where pipeline_id = :pipeline_id
   and plan_id in (select value from json_each(:others))
   and state = 'dead'
   and batch_id not in (select id from hf_batch where state = 'closed')
