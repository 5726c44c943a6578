-- Turn paused documents into dead letters.
update hf_document
   set state = 'dead', due_at = null, reason = :reason, code = :code, error = 'Rejected', recoverable = false
 where id in :ids::bigint[]
