-- Documents that wait for a decision at a gate without an end get one, counted from when they were parked: they had moved
-- there, or were claimed there. Those that are on hold, or parked for another reason, are not asked about.
update hf_document
   set due_at = greatest(moved_at, claimed_at) + %(within)s::interval
 where pipeline_id = %(pipeline_id)s
   and state = 'paused'
   and due_at is null
   and step_id = %(step_id)s
   and error <> 'OnHold'
   and reason like %(reason)s
