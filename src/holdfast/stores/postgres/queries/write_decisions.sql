-- The lines of a decision, beside the places that it was about. Before it is made: the state is what it was.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, coalesce(%(now)s::timestamptz, now()), %(verb)s, %(who)s, d.generation, s.name, d.cursor,
       ('{"was":"' || d.state || '",' || substr(%(detail)s::text, 2))::json
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id = any(%(ids)s::bigint[])
 order by d.id
