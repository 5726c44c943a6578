-- Paused documents whose time has come wait again. At a gate, also at one that whoever asks does not know, somebody
-- decides, unless they were put on hold.
-- A slice at a time, the longest overdue first, so that nobody who commits waits for many; what
-- somebody is deciding about is left for later.
with sleeping as materialized (
  select id
    from hf_document
   where pipeline_id = %(pipeline_id)s
     and state = 'paused'
     and due_at <= coalesce(%(now)s::timestamptz, now())
     and (step_id = any(%(bodies)s::bigint[]) or error = 'OnHold')
   order by due_at, id
   limit %(limit)s
     for no key update skip locked
)
update hf_document d
   set state = 'waiting', reason = '', error = ''
  from sleeping
 where d.id = sleeping.id
returning d.id
