-- Changed documents are journalled before they begin anew.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, coalesce(%(now)s::timestamptz, now()), 'change', 'submit', d.generation, s.name, d.cursor,
       json_build_object('from', d.fingerprint, 'to', new.fingerprint, 'state', d.state)
  from unnest(%(keys)s::text[], %(fingerprints)s::text[]) as new (key, fingerprint)
  join hf_document d on d.key = new.key
  left join hf_step s on s.id = d.step_id
 where d.batch_id = %(batch_id)s
   and d.key = any(%(keys)s::text[])
