-- Set a deadline for documents that wait for a decision at a gate without one. It counts from when they were paused:
-- they moved there, or were claimed there. Documents on hold, or paused for another reason, are left alone.
-- A slice at a time, so that commits do not wait long. Documents that somebody is deciding about are left for later.
with gated as materialized (
  select id
    from hf_document
   where pipeline_id = :pipeline_id
     and state = 'paused'
     and due_at is null
     and step_id = :step_id
     and code = 'at_gate'
   order by id
   limit :limit
     for no key update skip locked -- on postgresql
)
update hf_document as d
   set due_at = greatest(d.moved_at, coalesce(d.claimed_at, d.moved_at)) + :within::interval,
       waits_since = greatest(d.moved_at, coalesce(d.claimed_at, d.moved_at))
  from gated
 where d.id = gated.id
returning id -- on sqlite
returning d.id -- on postgresql
