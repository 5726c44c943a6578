-- Paused documents whose time has come wait again. At a gate, also at one that whoever asks does not know, somebody
-- decides, unless they were put on hold.
-- A slice at a time, the longest overdue first, so that nobody who commits waits for many.
update hf_document
   set state = 'waiting', reason = '', error = ''
 where id in (select id
                from hf_document
               where pipeline_id = :pipeline_id
                 and state = 'paused'
                 and due_at <= :now
                 and (step_id in (select value from json_each(:bodies)) or error = 'OnHold')
               order by due_at, id
               limit :limit)
returning id
