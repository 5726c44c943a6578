-- The lines of a rewind, beside the place that it leads to. Before it is made: the document stands where it stood.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, 'rewind', :who,
       1 + max(d.generation, coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       :to, null,
       json_object('reason', :reason, 'was', d.state, 'state', :state, 'from', s.name, 'cursor',
                   iif(json_valid(d.cursor), json(d.cursor), d.cursor), 'to', :to)
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id in (select value from json_each(:ids))
 order by d.id
