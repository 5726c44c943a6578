-- Documents that wait for a decision at a gate without an end get one, counted from when they were parked: they had moved
-- there, or were claimed there. Those that are on hold, or parked for another reason, are not asked about.
-- A slice at a time, so that nobody who commits waits for many; what somebody is deciding about is left for later.
with asked as materialized (
  select id
    from hf_document
   where pipeline_id = %(pipeline_id)s
     and state = 'paused'
     and due_at is null
     and step_id = %(step_id)s
     and error <> 'OnHold'
     and reason like %(reason)s
   order by id
   limit %(limit)s
     for no key update skip locked
)
update hf_document d
   set due_at = greatest(d.moved_at, d.claimed_at) + %(within)s::interval
  from asked
 where d.id = asked.id
