-- Return the dead letters of a batch, oldest first, with the time of death.
select d.key, s.name, d.error, d.reason, d.attempts, d.crashes, d.fingerprint, coalesce(d.accepted_by, ''),
       coalesce((select max(j.at) from hf_journal j where j.document_id = d.id and j.verb in ('fail', 'reject', 'reclaim')),
                d.moved_at), d.recoverable, d.losses
  from hf_document d
  indexed by hf_document_dead -- on sqlite
  left join hf_step s on s.id = d.step_id
 where d.pipeline_id = :pipeline_id
   and d.state = 'dead'
   and d.batch_id = :batch_id
   and (not :unaccepted or d.accepted_by is null)
 order by d.id
 limit :limit
