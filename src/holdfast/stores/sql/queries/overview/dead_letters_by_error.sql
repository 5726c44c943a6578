-- Count dead letters by step and class of error.
select s.name, d.error, d.documents
  from (select step_id, error, count(*) as documents
          from hf_document
         where pipeline_id = (select id from hf_pipeline where name = :pipeline)
           and state = 'dead'
         group by step_id, error) d
  join hf_step s on s.id = d.step_id
