-- Let waits start again, now, each as long as it was meant.
update hf_document
   set due_at = case when due_at > waits_since then :now + (due_at - waits_since) else :now end, waits_since = :now,
       submitted_at = least(submitted_at, :now), moved_at = least(moved_at, :now),
       claimed_at = case when claimed_at > :now then :now else claimed_at end,
       deferred_at = case when deferred_at > :now then :now else deferred_at end
 where id in :ids::bigint[]
