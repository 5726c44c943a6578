-- What was set aside for a document, in its present generation.
select s.name, a.position, a.tries, a.error::text
  from hf_aside a
  join hf_document d on d.id = a.document_id
  join hf_step s on s.id = a.step_id
 where d.id = %(document_id)s
   and a.generation = coalesce((d.reuses ->> s.id::text)::int, d.generation)
 order by s.id, a.position
