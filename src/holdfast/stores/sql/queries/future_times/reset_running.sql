-- Set times of running documents that are in the future to now. A deadline is at most the timeout of the step away.
update hf_document as d
   set claimed_at = least(claimed_at, :now), moved_at = least(moved_at, :now),
       deferred_at = case when deferred_at > :now then :now else deferred_at end,
       deadline_at = coalesce((select least(d.deadline_at, :now + t.timeout)
                                 from rows(:timeouts) as t (step_id bigint, timeout interval)
                                where t.step_id = d.step_id and d.deadline_at is not null), d.deadline_at)
 where id in :ids::bigint[]
