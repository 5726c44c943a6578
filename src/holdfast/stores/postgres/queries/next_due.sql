-- How long until the next waiting document is due.
select min(due_at) - coalesce(%(now)s::timestamptz, now())
  from hf_document
 where pipeline_id = %(pipeline_id)s
   and state = 'waiting'
   and step_id = any(%(step_ids)s::bigint[])
   and (%(batch)s::text is null
        or batch_id = (select id from hf_batch where pipeline_id = %(pipeline_id)s and name = %(batch)s::text))
