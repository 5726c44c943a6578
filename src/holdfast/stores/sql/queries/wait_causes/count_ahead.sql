-- Count the due documents that are claimed before this one. Suspects are in a queue of their own.
select count(*)
  from hf_document me
  join hf_document d on d.pipeline_id = me.pipeline_id
 where me.id = :document_id
   and me.state = 'waiting'
   and d.state = 'waiting'
   and d.due_at <= :now
   and (d.crashes >= 2 or d.losses >= 5) = (me.crashes >= 2 or me.losses >= 5)
   and (-d.priority, d.due_at, d.id) < (-me.priority, me.due_at, me.id)
