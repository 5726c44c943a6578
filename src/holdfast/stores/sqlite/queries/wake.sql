-- Paused documents whose time has come wait again. At a gate, somebody decides, unless they were put on hold.
update hf_document
   set state = 'waiting', reason = '', error = ''
 where pipeline_id = :pipeline_id
   and state = 'paused'
   and due_at <= :now
   and (step_id not in (select value from json_each(:gates)) or error = 'OnHold')
returning id
