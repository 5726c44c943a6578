-- Running documents whose last sign of life is longer ago than the grace: the heartbeat of a worker that is silent or
-- gone, the deadline of the step, the last move or claim.
select t.*, d.fence, w.beat_at, (w.gone_at is not null
                                 or w.beat_at + w.lease < :now
                                 or w.id in (select value from json_each(:gone))) as silent
  from hf_document d indexed by hf_document_running
  join hf_worker w on w.id = d.worker_id
  join hf_standing t on t.id = d.id
 where d.state = 'running'
   and d.pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and (:batch is null or t.batch = :batch)
   and (d.deadline_at < :now - :grace
        or max(d.claimed_at, d.moved_at) < :now - :grace
        or (w.beat_at < :now - :grace
            and (w.gone_at is not null
                 or w.beat_at + w.lease < :now
                 or w.id in (select value from json_each(:gone)))))
 order by d.id
