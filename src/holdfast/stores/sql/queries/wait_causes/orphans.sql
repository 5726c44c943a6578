-- Return running documents whose last sign of life is older than the grace. Signs of life are the heartbeat of a worker
-- that is silent or gone, the deadline of the step, and the last move or claim.
select t.*, d.fence, w.beat_at, (w.gone_at is not null
                                 or w.beat_at + w.lease < :now
                                 or w.id in :gone::bigint[]) as silent, :now as read_at
  from hf_document d
  indexed by hf_document_running -- on sqlite
  join hf_worker w on w.id = d.worker_id
  join hf_document_status t on t.id = d.id
 where d.state = 'running'
   and d.pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and (:batch::text is null or t.batch = :batch::text)
   and (d.deadline_at < :now - :grace::interval
        or greatest(d.claimed_at, d.moved_at) < :now - :grace::interval
        or (w.beat_at < :now - :grace::interval
            and (w.gone_at is not null
                 or w.beat_at + w.lease < :now
                 or w.id in :gone::bigint[])))
 order by d.id
