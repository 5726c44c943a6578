-- The documents that a decision is about, held until it is made: in these states, of batches that are not closed.
select d.id, d.state, d.step_id, d.moves, d.generation, d.plan_id, d.pipeline_id, d.priority, d.reuses::text,
       d.cleaned_at is not null, d.error = 'OnHold'
  from hf_document d
  join hf_batch b on b.id = d.batch_id
 where d.id = any(%(ids)s::bigint[])
   and d.state = any(%(states)s::text[])
   and b.state <> 'closed'
 order by d.id
   for no key update of d
