-- Dead letters of another order, but in batches that are closed, are journalled before they begin anew, and held until then.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, coalesce(%(now)s::timestamptz, now()), 'rewind', 'declare',
       1 + greatest(d.generation, (select max(i.generation) from hf_item i where i.document_id = d.id)),
       %(first)s::text, null,
       json_build_object('from', s.name, 'cursor', d.cursor, 'to', %(first)s::text, 'reason', %(reason)s::text)
  from hf_document d
  join hf_step s on s.id = d.step_id
 where d.pipeline_id = %(pipeline_id)s
   and d.plan_id = any(%(others)s::bigint[])
   and d.state = 'dead'
   and d.batch_id not in (select id from hf_batch where state = 'closed')
   for no key update of d
