-- Write the journal lines of a redrive of items before it is made, with the items, and the places to which it leads.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code)
select d.id, :now, 'rewind', :who,
       1 + greatest(d.generation,
                    coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       :to::text, null,
       json_build_object('reason', :reason::text, 'was', d.state, 'state', 'waiting',
                         'from', s.name,
                         'cursor', iif(json_valid(d.cursor), json(d.cursor), d.cursor), -- on sqlite
                         'items', json(redriven.items), -- on sqlite
                         'cursor', d.cursor, -- on postgresql
                         'items', redriven.items, -- on postgresql
                         'to', :to::text),
       :code::text
  from rows(:redriven) as redriven (id bigint, items json)
  join hf_document d on d.id = redriven.id
  left join hf_step s on s.id = d.step_id
 where d.id in :redriven_id::bigint[] -- on postgresql
 order by d.id
