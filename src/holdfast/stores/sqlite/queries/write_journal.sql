-- One line of the journal, beside the document's present place.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, :verb, :who, d.generation, s.name, d.cursor, :detail
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.id = :document_id
