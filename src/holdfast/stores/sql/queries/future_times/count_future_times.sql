-- Count what was written by a clock that was ahead, and by how much it was ahead: times of writing in the future.
-- Of waiting and paused documents, only those are read that are due later.
select 'waiting', count(*), max(waits_since) - :now
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'waiting'
   and priority in :priorities::int[]
   and due_at > :now
   and waits_since > :now + :tolerance::interval
 union all
select 'waiting', count(*), max(waits_since) - :now
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'paused'
   and due_at > :now
   and waits_since > :now + :tolerance::interval
 union all
select 'running', count(*), max(greatest(claimed_at, moved_at)) - :now
  from hf_document
  indexed by hf_document_running -- on sqlite
 where pipeline_id = :pipeline_id
   and state = 'running'
   and greatest(claimed_at, moved_at) > :now + :tolerance::interval
 union all
select 'workers', count(*), max(beat_at) - :now
  from hf_worker
 where gone_at is null
   and beat_at > :now + :tolerance::interval
 union all
select 'steps', count(*), max(p.worked_at) - :now
  from hf_step_time p
  join hf_step s on s.id = p.step_id
 where s.pipeline_id = :pipeline_id
   and p.worked_at > :now + :tolerance::interval
