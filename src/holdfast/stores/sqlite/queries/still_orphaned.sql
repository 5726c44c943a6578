-- Orphans that are where a scan found them, and whose workers, if silent, were not heard since.
select d.id, s.name, d.attempts, d.crashes, d.fence, w.name, 0
  from json_each(:orphans) o
  join hf_document d on d.id = json_extract(o.value, '$[0]')
  join hf_worker w on w.id = d.worker_id
  join hf_step s on s.id = d.step_id
 where d.state = 'running'
   and d.fence = json_extract(o.value, '$[1]')
   and d.generation = json_extract(o.value, '$[2]')
   and d.moves = json_extract(o.value, '$[3]')
   and w.beat_at = coalesce(json_extract(o.value, '$[4]'), w.beat_at)
 order by d.id
