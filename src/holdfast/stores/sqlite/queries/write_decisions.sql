-- The lines of a decision, beside the places that it was about. Before it is made: the state is what it was.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, :verb, :who, d.generation, s.name, d.cursor, '{"was":"' || d.state || '",' || substr(:detail, 2)
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id in (select value from json_each(:ids))
 order by d.id
