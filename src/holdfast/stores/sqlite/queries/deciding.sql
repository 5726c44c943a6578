-- The documents that a decision is about: in these states, of batches that are not closed.
select d.id, d.state, d.step_id, d.moves, d.generation, d.plan_id, d.pipeline_id, d.priority, d.reuses,
       d.cleaned_at is not null, d.error = 'OnHold'
  from hf_document d
  join hf_batch b on b.id = d.batch_id
 where d.id in (select value from json_each(:ids))
   and d.state in (select value from json_each(:states))
   and b.state <> 'closed'
 order by d.id
