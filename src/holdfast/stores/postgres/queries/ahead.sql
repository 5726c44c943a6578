-- How many due documents are claimed before this one. Suspects stand in a queue of their own.
select count(*)
  from hf_document me
  join hf_document d on d.pipeline_id = me.pipeline_id
 where me.id = %(document_id)s
   and me.state = 'waiting'
   and d.state = 'waiting'
   and d.due_at <= coalesce(%(now)s::timestamptz, now())
   and (d.crashes >= 2) = (me.crashes >= 2)
   and (-d.priority, d.due_at, d.id) < (-me.priority, me.due_at, me.id)
