-- Changed documents are journalled before they begin anew. The "cross join" says what to walk: the slice, not the batch.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, 'change', 'submit', d.generation, s.name, d.cursor,
       json_object('from', d.fingerprint, 'to', new.value ->> 2, 'state', d.state)
  from json_each(:documents) as new
 cross join hf_document d on d.batch_id = :batch_id and d.key = new.value ->> 0
  left join hf_step s on s.id = d.step_id
