-- Count documents by state and step.
-- SQLite sorts to group, so finished documents, which may be a million, are counted apart there.
select 'done', null, count(*) -- on sqlite
  from hf_document -- on sqlite
 where pipeline_id = (select id from hf_pipeline where name = :pipeline) -- on sqlite
   and state = 'done' -- on sqlite
union all -- on sqlite
select d.state, s.name, d.documents
  from (select state, step_id, count(*) as documents
          from hf_document
         where pipeline_id = (select id from hf_pipeline where name = :pipeline)
           and state <> 'done' -- on sqlite
         group by state, step_id) d
  left join hf_step s on s.id = d.step_id
