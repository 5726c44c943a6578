-- Orphans that are where a scan found them, and whose workers, if silent, were not heard since.
-- One that is just being moved, or resolved by another scan, is passed over.
select d.id, s.name, d.attempts, d.crashes, d.fence, w.name, false
  from unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(generations)s::int[], %(moves)s::bigint[],
              %(heard)s::timestamptz[])
       as o (id, fence, generation, moves, heard_at)
  join hf_document d on d.id = o.id
  join hf_worker w on w.id = d.worker_id
  join hf_step s on s.id = d.step_id
 where d.id = any(%(ids)s::bigint[])
   and d.state = 'running'
   and d.fence = o.fence
   and d.generation = o.generation
   and d.moves = o.moves
   and (o.heard_at is null or w.beat_at = o.heard_at)
 order by d.id
   for update of d skip locked
