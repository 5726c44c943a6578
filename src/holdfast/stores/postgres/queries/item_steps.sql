-- The steps that may have kept something for a document, each with the generation that serves now.
select s.id, s.name, coalesce((d.reuses ->> s.id::text)::int, d.generation)
  from hf_document d
  join hf_step s on s.pipeline_id = d.pipeline_id
 where d.id = %(document_id)s
 order by s.id
