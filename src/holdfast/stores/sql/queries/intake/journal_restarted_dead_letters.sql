-- Write the journal lines of dead letters of another order before they start again, and lock them until then.
-- Closed batches are left alone.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code)
select d.id, :now, 'rewind', 'declare',
       1 + greatest(d.generation,
                    coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       :first::text, null,
       json_build_object('from', s.name,
                         'cursor', iif(json_valid(d.cursor), json(d.cursor), d.cursor), -- on sqlite
                         'cursor', d.cursor, -- on postgresql
                         'to', :first::text, 'reason', :reason::text),
       :code::text
  from hf_document d
  join hf_step s on s.id = d.step_id
 where d.pipeline_id = :pipeline_id
   and d.plan_id in :others::bigint[]
   and d.state = 'dead'
   and d.batch_id not in (select id from hf_batch where state = 'closed')
   for no key update of d -- on postgresql
