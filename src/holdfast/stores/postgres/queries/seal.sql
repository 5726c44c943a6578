-- A sealed batch takes no new documents.
update hf_batch
   set state = 'sealed', sealed_at = coalesce(%(now)s::timestamptz, now())
 where id = %(batch_id)s
   and state = 'open'
