-- Return documents whose worker is gone or silent, or whose step is overdue. A document that is just moving is skipped.
select d.id, coalesce(s.name, ''), d.attempts, d.crashes, d.losses, d.fence,
       not (w.id in :gone::bigint[] or w.gone_at is not null or w.beat_at + w.lease < :now) as overdue,
       w.id, w.name, w.host, w.beat_at, w.death::text
  from hf_document d
  indexed by hf_document_running -- on sqlite
  join hf_worker w on w.id = d.worker_id
  left join hf_step s on s.id = d.step_id
 where d.pipeline_id = :pipeline_id
   and d.state = 'running'
   and (d.deadline_at < :now
        or w.gone_at is not null
        or w.beat_at + w.lease < :now
        or w.id in :gone::bigint[])
 order by d.id
   for update of d skip locked -- on postgresql
