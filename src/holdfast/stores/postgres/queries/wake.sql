-- Paused documents whose time has come wait again. At a gate, somebody decides, unless they were put on hold.
update hf_document
   set state = 'waiting', reason = '', error = ''
 where pipeline_id = %(pipeline_id)s
   and state = 'paused'
   and due_at <= coalesce(%(now)s::timestamptz, now())
   and (step_id <> all(%(gates)s::bigint[]) or error = 'OnHold')
returning id
