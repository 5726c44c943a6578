-- Count the documents of batches by state and step, and the orphans. It is one query, so that the counts add up.
select b.id, b.name, b.state, b.created_at, b.sealed_at, b.closed_at,
       b.expected, b.gone_done, b.gone_dead, b.gone_cancelled,
       d.state, s.name, d.documents, d.accepted, coalesce(o.documents, 0), d.moved_at, d.mark,
       b.deadline_at, b.deadline_action, b.expired_at
  from hf_batch b
  left join (select batch_id, state, step_id, count(*) as documents, count(accepted_by) as accepted,
                    max(moved_at) as moved_at, sum(fence + generation)::bigint as mark
               from hf_document
              where pipeline_id = :pipeline_id
                and (:batch_id::bigint is null or batch_id = :batch_id::bigint)
              group by batch_id, state, step_id) d on d.batch_id = b.id
  left join (select r.batch_id, r.step_id, count(*) as documents
               from hf_document r
               indexed by hf_document_running -- on sqlite
               left join hf_worker w on w.id = r.worker_id
              where r.state = 'running'
                and r.pipeline_id = :pipeline_id
                and (w.id is null or w.gone_at is not null or w.beat_at + w.lease < :now or r.deadline_at < :now)
              group by r.batch_id, r.step_id) o
       on o.batch_id = d.batch_id and o.step_id = d.step_id and d.state = 'running'
  left join hf_step s on s.id = d.step_id
 where b.pipeline_id = :pipeline_id
   and (:batch_id::bigint is null or b.id = :batch_id::bigint)
 order by b.id
