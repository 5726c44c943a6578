-- The lines of a rewind, beside the place that it leads to. Before it is made: the document stands where it stood.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, coalesce(%(now)s::timestamptz, now()), 'rewind', %(who)s,
       1 + greatest(d.generation, (select max(i.generation) from hf_item i where i.document_id = d.id)),
       %(to)s::text, null,
       json_build_object('reason', %(reason)s::text, 'was', d.state, 'state', %(state)s::text, 'from', s.name,
                         'cursor', d.cursor, 'to', %(to)s::text)
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id = any(%(ids)s::bigint[])
 order by d.id
