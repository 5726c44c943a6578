-- Paused documents become dead letters.
update hf_document
   set state = 'dead', due_at = null, reason = :reason, error = 'Rejected'
 where id in (select value from json_each(:ids))
