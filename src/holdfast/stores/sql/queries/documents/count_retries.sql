-- Count how often the documents of a pipeline were tried again in their current generation, by their state.
select d.state, count(*)
  from hf_document d
  join hf_pipeline p on p.id = d.pipeline_id
  join hf_journal j on j.document_id = d.id
 where p.name = :pipeline
   and j.generation = d.generation
   and j.verb in ('fail', 'reclaim', 'redrive')
   and j.detail ->> 'state' = 'waiting'
 group by d.state
