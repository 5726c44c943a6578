-- Documents by state and step. Those that are done are counted apart: grouping sorts, and they are most of a million.
select 'done', null, count(*)
  from hf_document
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and state = 'done'
union all
select d.state, s.name, d.documents
  from (select state, step_id, count(*) as documents
          from hf_document
         where pipeline_id = (select id from hf_pipeline where name = :pipeline)
           and state <> 'done'
         group by state, step_id) d
  left join hf_step s on s.id = d.step_id
