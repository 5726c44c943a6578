-- Write the journal lines of a decision before it is made: the state is the one before it.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code)
select d.id, :now, :verb, :who, d.generation, s.name, d.cursor,
       ('{"was":"' || d.state || '",' || substr(:detail::text, 2))::json, :code::text
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id in :ids::bigint[]
 order by d.id
