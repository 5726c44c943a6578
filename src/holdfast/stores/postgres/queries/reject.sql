-- Paused documents become dead letters.
update hf_document
   set state = 'dead', due_at = null, reason = %(reason)s, error = 'Rejected'
 where id = any(%(ids)s::bigint[])
