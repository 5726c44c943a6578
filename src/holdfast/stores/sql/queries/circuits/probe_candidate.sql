-- Return the document to try next at a paused step: one that did not fail yet, else the one that waits longest since it
-- was tried. Priorities do not count: documents that always fail must not be tried again and again before all others.
-- The numbers are core.retry.SUSPECT and SUSPECT_LOSSES.
select id
  from hf_document
 where pipeline_id = :pipeline_id
   and id = :document_id -- if document
   and state = 'waiting'
   and due_at <= :now
   and crashes < 2 and losses < 5 -- if ordinary
   and (crashes >= 2 or losses >= 5) -- if suspect
   and step_id = :step_id
   and (:batch::text is null
        or batch_id = (select id from hf_batch where pipeline_id = :pipeline_id and name = :batch::text))
 order by error <> '', due_at, id
 limit 1
