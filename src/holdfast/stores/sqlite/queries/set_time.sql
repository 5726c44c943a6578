-- Documents that wait for a decision at a gate without an end get one, counted from when they were parked: they had moved
-- there, or were claimed there. Those that are on hold, or parked for another reason, are not asked about.
-- A slice at a time, so that nobody who commits waits for many.
update hf_document
   set due_at = max(moved_at, coalesce(claimed_at, moved_at)) + :within
 where id in (select id
                from hf_document
               where pipeline_id = :pipeline_id
                 and state = 'paused'
                 and due_at is null
                 and step_id = :step_id
                 and error <> 'OnHold'
                 and reason like :reason
               order by id
               limit :limit)
