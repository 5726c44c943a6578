-- Write the journal lines of a rewind before it is made, with the places to which it leads.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code)
select d.id, :now, 'rewind', :who,
       1 + greatest(d.generation,
                    coalesce((select max(i.generation) from hf_item i where i.document_id = d.id), 0)),
       :to::text, null,
       json_build_object('reason', :reason::text, 'was', d.state, 'state',
                         case when :then::text = 'park' or (:then::text = 'keep_hold' and d.state = 'paused')
                              then 'paused' else 'waiting' end,
                         'from', s.name,
                         'cursor', iif(json_valid(d.cursor), json(d.cursor), d.cursor), -- on sqlite
                         'cursor', d.cursor, -- on postgresql
                         'to', :to::text),
       :code::text
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id in :ids::bigint[]
 order by d.id
