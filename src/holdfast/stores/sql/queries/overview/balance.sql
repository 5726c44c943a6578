-- Count documents by batch, state and step. It is one query, so that the counts add up.
select d.batch_id, d.state, s.name, d.documents
  from (select batch_id, state, step_id, count(*) as documents
          from hf_document
         where pipeline_id = (select id from hf_pipeline where name = :pipeline)
           and (:batch_id::bigint is null or batch_id = :batch_id::bigint)
         group by batch_id, state, step_id) d
  left join hf_step s on s.id = d.step_id
