-- Release what a worker holds in the database but does not know of. It costs no attempt.
update hf_document
   set state = 'waiting', worker_id = null, worked_by = worker_id, due_at = least(submitted_at, :now), waits_since = :now,
       deadline_at = null,
       attempts = greatest(attempts - 1, 0)
 where worker_id = :id
   and state = 'running'
   and id not in :keeping::bigint[]
