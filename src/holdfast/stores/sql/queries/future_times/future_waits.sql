-- Return documents that are due too late, because they were put off by a clock that was ahead.
select id, waits_since - :now
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'waiting' -- if waiting
   and priority = :priority -- if waiting
   and state = 'paused' -- if paused
   and due_at > :now
   and waits_since > :now + :tolerance::interval
 order by due_at, id
 limit :limit
   for no key update skip locked -- on postgresql
