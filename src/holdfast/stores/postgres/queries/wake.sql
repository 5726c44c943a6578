-- Paused documents whose time has come wait again.
update hf_document
   set state = 'waiting', reason = ''
 where pipeline_id = %(pipeline_id)s
   and state = 'paused'
   and due_at <= coalesce(%(now)s::timestamptz, now())
