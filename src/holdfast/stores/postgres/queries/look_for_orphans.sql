-- Running documents whose last sign of life is longer ago than the grace: the heartbeat of a worker that is silent or
-- gone, the deadline of the step, the last move or claim.
select t.*, d.fence, w.beat_at, (w.gone_at is not null
                                 or w.beat_at + w.lease < coalesce(%(now)s::timestamptz, now())
                                 or w.id = any(%(gone)s::bigint[])) as silent, coalesce(%(now)s::timestamptz, now())
  from hf_document d
  join hf_worker w on w.id = d.worker_id
  join hf_standing t on t.id = d.id
 where d.state = 'running'
   and d.pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and (%(batch)s::text is null or t.batch = %(batch)s::text)
   and (d.deadline_at < coalesce(%(now)s::timestamptz, now()) - %(grace)s
        or greatest(d.claimed_at, d.moved_at) < coalesce(%(now)s::timestamptz, now()) - %(grace)s
        or (w.beat_at < coalesce(%(now)s::timestamptz, now()) - %(grace)s
            and (w.gone_at is not null
                 or w.beat_at + w.lease < coalesce(%(now)s::timestamptz, now())
                 or w.id = any(%(gone)s::bigint[]))))
 order by d.id
