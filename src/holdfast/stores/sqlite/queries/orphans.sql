-- Documents whose worker is gone or silent, or whose step is overdue.
select d.id, coalesce(s.name, ''), d.attempts, d.crashes, d.fence, w.name,
       not (d.worker_id in (select value from json_each(:gone)) or w.gone_at is not null
            or w.beat_at + w.lease < :now) as overdue
  from hf_document d indexed by hf_document_running
  join hf_worker w on w.id = d.worker_id
  left join hf_step s on s.id = d.step_id
 where d.pipeline_id = :pipeline_id
   and d.state = 'running'
   and (d.deadline_at < :now
        or w.gone_at is not null
        or w.beat_at + w.lease < :now
        or w.id in (select value from json_each(:gone)))
 order by d.id
