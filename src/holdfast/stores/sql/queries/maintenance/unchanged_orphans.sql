-- Return orphans that are where a scan found them, and whose workers, if silent, have sent no heartbeat since.
-- A document that is just moving, or that another scan is resolving, is skipped.
select d.id, s.name, d.attempts, d.crashes, d.losses, d.fence, false, w.id, w.name, w.host, w.beat_at, w.death::text
  from rows(:orphans) as o (id bigint, fence bigint, generation int, moves bigint, beat_at timestamptz)
  join hf_document d on d.id = o.id
  join hf_worker w on w.id = d.worker_id
  join hf_step s on s.id = d.step_id
 where d.state = 'running'
   and d.id in :orphans_id::bigint[] -- on postgresql
   and d.fence = o.fence
   and d.generation = o.generation
   and d.moves = o.moves
   and (o.beat_at is null or w.beat_at = o.beat_at)
 order by d.id
   for update of d skip locked -- on postgresql
