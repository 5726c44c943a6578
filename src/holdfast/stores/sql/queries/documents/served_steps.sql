-- Return the steps whose items readers see, each with the generation that they see: the last complete one.
select s.id, s.name,
       case when d.state = 'done' then coalesce(json_int(d.reuses, s.id), d.generation)
            else json_int(d.serves, s.id) end as generation
  from hf_document d
  join hf_step s on s.pipeline_id = d.pipeline_id
 where d.id = :document_id
   and d.cleaned_at is null
 order by s.id
