-- Documents by batch, state and step: one query, so that it balances at every moment.
select d.batch_id, d.state, s.name, d.documents
  from (select batch_id, state, step_id, count(*) as documents
          from hf_document
         where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
           and (%(batch_id)s::bigint is null or batch_id = %(batch_id)s::bigint)
         group by batch_id, state, step_id) d
  left join hf_step s on s.id = d.step_id
