-- Dead letters of another order, but in batches that are closed, are journalled before they begin anew.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, 'rewind', 'declare',
       1 + max(d.generation, coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       :first, null,
       json_object('from', s.name, 'cursor', iif(json_valid(d.cursor), json(d.cursor), d.cursor), 'to', :first, 'reason', :reason)
  from hf_document d
  join hf_step s on s.id = d.step_id
 where d.pipeline_id = :pipeline_id
   and d.plan_id in (select value from json_each(:others))
   and d.state = 'dead'
   and d.batch_id not in (select id from hf_batch where state = 'closed')
