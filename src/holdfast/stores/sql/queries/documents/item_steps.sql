-- Return the steps that may have kept items for a document, each with the generation that serves now.
select s.id, s.name, coalesce(json_int(d.reuses, s.id), d.generation)
  from hf_document d
  join hf_step s on s.pipeline_id = d.pipeline_id
 where d.id = :document_id
 order by s.id
