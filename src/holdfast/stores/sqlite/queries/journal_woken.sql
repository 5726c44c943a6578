-- The lines of documents that wait again, beside their places.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, 'wake', :who, d.generation, s.name, d.cursor, :detail
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id in (select value from json_each(:ids))
 order by d.id
