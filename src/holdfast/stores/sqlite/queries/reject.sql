-- A paused document becomes a dead letter.
update hf_document
   set state = 'dead', due_at = null, reason = :reason
 where id = :id
   and state = 'paused'
