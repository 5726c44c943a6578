-- Count the documents that are not done by what they wait for, with the oldest of each.
with inside as materialized (
  select d.id, d.step_id
    from hf_permit p
    join hf_document d on d.id = p.document_id and d.fence = p.fence and d.step_id = p.step_id
   where d.state = 'running'
),
kept as (
  select d.id, d.state, d.step_id, d.error,
         case d.state
           when 'waiting' then
             case when c.step_id is not null then 'circuit'
                  when d.due_at > :now and d.waits_since > :now + :tolerance::interval then 'clock'
                  when d.due_at > :now then 'backoff'
                  when d.crashes >= 2 or d.losses >= 5 then 'suspect'
                  else 'due' end
           when 'running' then
             case when w.gone_at is not null or w.beat_at + w.lease < :now then 'silent'
                  when d.deadline_at < :now then 'overdue'
                  when d.step_id in (select i.step_id from inside i)
                       and d.id not in (select i.id from inside i) then 'full step'
                  else 'worked on' end
           when 'paused' then case when d.due_at is null then 'person' else 'until' end
           when 'dead' then case when d.accepted_by is null then 'dead' else 'accepted' end
           else d.state
         end as kind
    from hf_document d
    left join hf_worker w on w.id = d.worker_id
    left join hf_circuit c on c.step_id = d.step_id and c.opened_at is not null
   where d.pipeline_id = (select id from hf_pipeline where name = :pipeline)
     and d.state <> 'done'
     and (:batch::text is null
          or d.batch_id = (select id
                             from hf_batch
                            where pipeline_id = (select id from hf_pipeline where name = :pipeline)
                              and name = :batch::text))
),
counted as (
  select kind, state, step_id, error, count(*) as documents, min(id) as oldest
    from (select id, kind, state, step_id, case when kind in ('dead', 'accepted', 'backoff') then error else '' end as error
            from kept) k
   group by kind, state, step_id, error
)
select c.kind, c.state, s.name, c.error, c.documents, b.name, d.key, d.moved_at
  from counted c
  join hf_document d on d.id = c.oldest
  join hf_batch b on b.id = d.batch_id
  left join hf_step s on s.id = c.step_id
 order by c.documents desc, c.oldest
