-- Write journal lines with the current places of their documents.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code)
select d.id, :now, line.verb, line.who, d.generation, s.name, d.cursor, line.detail, line.code
  from rows(:lines) as line (id bigint, verb text, who text, detail json, code text)
  join hf_document d on d.id = line.id
  left join hf_step s on s.id = d.step_id
 where d.id in :lines_id::bigint[] -- on postgresql
 order by d.id
