-- Dead letters of another order, but in batches that are closed, go back to the start: redriven, they would trip over what they kept.
update hf_document
   set plan_id = :plan_id, generation = generation + 1, step_id = :step_id, cursor = null, moves = moves + 1,
       reuses = null, moved_at = :now
 where pipeline_id = :pipeline_id
   and plan_id in (select value from json_each(:others))
   and state = 'dead'
   and batch_id not in (select id from hf_batch where state = 'closed')
