-- What workers brought to an end, of those that did not leave and those that are gone since a moment.
select w.id, w.name, w.host, w.pid, w.born, w.lease, w.enlisted_at, w.gone_at is not null, d.done, d.dead
  from (select worked_by, sum(state = 'done') as done, sum(state = 'dead') as dead
          from hf_document
         where worked_by in (select id from hf_worker where gone_at is null or gone_at >= :since)
           and state in ('done', 'dead')
           and error <> 'Rejected'  -- that was a person
         group by worked_by) d
  join hf_worker w on w.id = d.worked_by
 order by w.id
