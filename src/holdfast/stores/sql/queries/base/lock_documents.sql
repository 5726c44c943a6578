-- Return the documents of a decision, locked until it is made: those in these states, in batches that are not closed.
select d.id, d.state, d.step_id, d.moves, d.generation, d.plan_id, d.pipeline_id, d.priority, d.reuses::text,
       d.cleaned_at is not null, d.code = 'on_hold', d.extents::text, d.code
  from hf_document d
  join hf_batch b on b.id = d.batch_id
 where d.id in :ids::bigint[]
   and d.state in :states::text[]
   and b.state <> 'closed'
 order by d.id
   for no key update of d -- on postgresql
