-- Count the documents whose worker is gone or silent, or whose step is overdue.
select count(*)
  from hf_document d
  indexed by hf_document_running -- on sqlite
  join hf_worker w on w.id = d.worker_id
 where d.pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and d.state = 'running'
   and (d.deadline_at < :now
        or w.gone_at is not null
        or w.beat_at + w.lease < :now)
