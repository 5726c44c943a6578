-- Write the journal lines of changed documents before they start again.
-- On SQLite the "cross join" says what to walk: the slice, not the batch.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, 'change', 'submit', d.generation, s.name, d.cursor,
       json_build_object('from', d.fingerprint, 'to', new.fingerprint, 'state', d.state)
  from rows(:documents) as new (key text, payload json, fingerprint text, priority int)
 cross join hf_document d
  left join hf_step s on s.id = d.step_id
 where d.batch_id = :batch_id
   and d.key = new.key
   and d.key in :documents_key::text[] -- on postgresql
