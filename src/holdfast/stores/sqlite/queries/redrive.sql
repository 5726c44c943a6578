-- Dead letters are tried again from their checkpoints, one after the other.
update hf_document
   set state = 'waiting', due_at = :now + :after + held.key * :every, attempts = 0, crashes = 0, reason = '', error = '',
       accepted_by = null
  from json_each(:ids) as held
 where hf_document.id = held.value
