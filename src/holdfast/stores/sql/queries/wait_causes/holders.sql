-- Return the workers that hold documents of a pipeline, whether they are alive, and how many documents they hold.
select w.id, w.name, w.host, w.pid, w.born, w.lease, w.enlisted_at, w.beat_at,
       w.gone_at is null and w.beat_at + w.lease >= :now, count(*)
  from hf_document d
  indexed by hf_document_running -- on sqlite
  join hf_worker w on w.id = d.worker_id
 where d.state = 'running'
   and d.pipeline_id = (select id from hf_pipeline where name = :pipeline)
 group by w.id
 order by w.id
