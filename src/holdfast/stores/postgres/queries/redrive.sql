-- Dead letters are tried again from their checkpoints, one after the other.
update hf_document
   set state = 'waiting', due_at = coalesce(%(now)s::timestamptz, now()) + %(after)s::interval + (held.nth - 1) * %(every)s::interval,
       attempts = 0, crashes = 0, reason = '', error = '', accepted_by = null
  from unnest(%(ids)s::bigint[]) with ordinality as held (id, nth)
 where hf_document.id = any(%(ids)s::bigint[])
   and hf_document.id = held.id
