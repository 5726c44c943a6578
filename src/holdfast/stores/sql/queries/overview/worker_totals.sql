-- Count the documents that workers finished: of workers that are here, and of those that left since a time.
select w.id, w.name, w.host, w.pid, w.born, w.lease, w.enlisted_at, w.gone_at is not null, d.done, d.dead
  from (select worked_by, count(*) filter (where state = 'done') as done, count(*) filter (where state = 'dead') as dead
          from hf_document
         where worked_by in (select id from hf_worker where gone_at is null or gone_at >= :since)
           and state in ('done', 'dead')
           and code not in :ended_by_others::text[]
         group by worked_by) d
  join hf_worker w on w.id = d.worked_by
 order by w.id
