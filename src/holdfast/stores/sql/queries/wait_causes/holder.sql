-- Return the worker that holds a document, and whether it is alive.
select w.id, w.name, w.host, w.pid, w.born, w.lease, w.enlisted_at, w.beat_at,
       w.gone_at is null and w.beat_at + w.lease >= :now
  from hf_document d
  join hf_worker w on w.id = d.worker_id
 where d.id = :document_id
