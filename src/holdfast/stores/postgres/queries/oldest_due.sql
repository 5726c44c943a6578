-- For how long the document that has waited longest could have been worked on.
select coalesce(%(now)s::timestamptz, now()) - min(due_at)
  from hf_document
 where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and state = 'waiting'
   and due_at <= coalesce(%(now)s::timestamptz, now())
