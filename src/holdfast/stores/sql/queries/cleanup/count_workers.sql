-- Count the workers that have been gone for long and hold nothing.
select count(*)
  from hf_worker
 where gone_at < :before
   and not exists (select 1 from hf_document d where d.worker_id = hf_worker.id and d.state = 'running')
