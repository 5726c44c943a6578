-- A dead letter is tried again from its checkpoint, unless what it kept was cleaned up.
update hf_document
   set state = 'waiting', due_at = :now, attempts = 0, crashes = 0, reason = ''
 where id = :id
   and state = 'dead'
   and cleaned_at is null
