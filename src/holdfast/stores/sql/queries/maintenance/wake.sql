-- Let paused documents wait again whose time has come. At a gate, even one that the caller does not know, a person
-- decides, unless the documents are on hold.
-- A slice at a time, the longest overdue first, so that commits do not wait long. Documents that somebody is deciding
-- about are left for later.
with woken as materialized (
  select id
    from hf_document
   where pipeline_id = :pipeline_id
     and state = 'paused'
     and due_at <= :now
     and (step_id in :bodies::bigint[] or code = 'on_hold')
   order by due_at, id
   limit :limit
     for no key update skip locked -- on postgresql
)
update hf_document as d
   set state = 'waiting', waits_since = :now, reason = '', code = '', error = '', recoverable = null
  from woken
 where d.id = woken.id
returning id -- on sqlite
returning d.id -- on postgresql
