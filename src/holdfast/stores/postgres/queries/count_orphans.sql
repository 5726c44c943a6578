-- How many documents are held by workers that are gone or silent, or are overdue in their step.
select count(*)
  from hf_document d
  join hf_worker w on w.id = d.worker_id
 where d.pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and d.state = 'running'
   and (d.deadline_at < coalesce(%(now)s::timestamptz, now())
        or w.gone_at is not null
        or w.beat_at + w.lease < coalesce(%(now)s::timestamptz, now()))
