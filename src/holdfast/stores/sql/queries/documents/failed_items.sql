-- Return the items that failed for a document, in its current generation.
select s.name, a.position, a.tries, a.error::text
  from hf_aside a
  join hf_document d on d.id = a.document_id
  join hf_step s on s.id = a.step_id
 where d.id = :document_id
   and a.generation = coalesce(json_int(d.reuses, s.id), d.generation)
 order by s.id, a.position
