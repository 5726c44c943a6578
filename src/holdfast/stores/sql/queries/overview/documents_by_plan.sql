-- Count documents by plan, state and step, and by whether they are settled. Each document is read once.
select d.plan_id, d.state, s.name, d.cleaned or b.state = 'closed' as settled, sum(d.documents)::bigint
  from (select plan_id, batch_id, state, step_id, cleaned_at is not null as cleaned, count(*) as documents
          from hf_document
         where pipeline_id = :pipeline_id
           and (:batch_id::bigint is null or batch_id = :batch_id::bigint)
         group by plan_id, batch_id, state, step_id, cleaned_at is not null) d
  join hf_batch b on b.id = d.batch_id
  left join hf_step s on s.id = d.step_id
 group by d.plan_id, d.state, s.name, settled
