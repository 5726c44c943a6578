-- Documents by state and step.
select d.state, s.name, d.documents
  from (select state, step_id, count(*) as documents
          from hf_document
         where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
         group by state, step_id) d
  left join hf_step s on s.id = d.step_id
