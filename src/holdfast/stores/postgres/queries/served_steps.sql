-- The steps whose items readers see, each with the generation that they see: the last that was complete.
select s.id, s.name,
       case when d.state = 'done' then coalesce((d.reuses ->> s.id::text)::int, d.generation)
            else (d.serves ->> s.id::text)::int end as generation
  from hf_document d
  join hf_step s on s.pipeline_id = d.pipeline_id
 where d.id = %(document_id)s
   and d.cleaned_at is null
 order by s.id
