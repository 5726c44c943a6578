-- Let dead letters be tried again from their checkpoints, one after the other.
update hf_document as d
   set state = 'waiting', due_at = :now + :after::interval + dead.nth * :every::interval, waits_since = :now,
       attempts = 0, crashes = 0, losses = 0, deferrals = 0, deferred_at = null,
       interruptions = 0, reason = '', code = '', error = '', recoverable = null, accepted_by = null
  from rows(:dead) as dead (id bigint, nth int)
 where d.id = dead.id
   and d.id in :dead_id::bigint[] -- on postgresql
