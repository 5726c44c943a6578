-- Documents whose worker is gone or silent, or whose step is overdue. One that is just being moved is passed over.
select d.id, coalesce(s.name, ''), d.attempts, d.crashes, d.fence, w.name,
       not (d.worker_id = any(%(gone)s::bigint[]) or w.gone_at is not null
            or w.beat_at + w.lease < coalesce(%(now)s::timestamptz, now())) as overdue
  from hf_document d
  join hf_worker w on w.id = d.worker_id
  left join hf_step s on s.id = d.step_id
 where d.pipeline_id = %(pipeline_id)s
   and d.state = 'running'
   and (d.deadline_at < coalesce(%(now)s::timestamptz, now())
        or w.gone_at is not null
        or w.beat_at + w.lease < coalesce(%(now)s::timestamptz, now())
        or w.id = any(%(gone)s::bigint[]))
 order by d.id
   for update of d skip locked
