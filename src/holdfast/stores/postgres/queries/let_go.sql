-- What a worker holds by the books but not in hand waits again, and costs nothing.
update hf_document
   set state = 'waiting', worker_id = null, worked_by = worker_id, due_at = submitted_at, deadline_at = null,
       attempts = greatest(attempts - 1, 0)
 where worker_id = %(id)s
   and state = 'running'
   and id <> all(%(keeping)s::bigint[])
