-- Return how long the oldest due document has been due.
select :now - min(due_at)
  from hf_document
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and state = 'waiting'
   and due_at <= :now
