-- A paused document becomes a dead letter.
update hf_document
   set state = 'dead', due_at = null, reason = %(reason)s
 where id = %(id)s
   and state = 'paused'
