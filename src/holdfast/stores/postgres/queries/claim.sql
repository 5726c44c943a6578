-- Due documents become the worker's, by priority, then age. The attempt counts from here.
-- A worker that was given up gets none: they would be taken from it at once, and the crash counted against them.
-- Documents that another worker is just claiming are passed over, not waited for.
update hf_document d
   set state = 'running', worker_id = %(worker_id)s, fence = fence + 1, attempts = attempts + 1,
       due_at = null, claimed_at = coalesce(%(now)s::timestamptz, now()),
       deadline_at = coalesce(%(now)s::timestamptz, now())
                     + (%(timeouts)s::json ->> step_id::text)::float8 * interval '1 microsecond'
 where id = any(array(select id
                        from hf_document
                       where pipeline_id = %(pipeline_id)s
                         and state = 'waiting'
                         and due_at <= coalesce(%(now)s::timestamptz, now())
                         and crashes < 2
                         and step_id = any(%(step_ids)s::bigint[])
                         and (%(batch)s::text is null
                              or batch_id = (select id
                                               from hf_batch
                                              where pipeline_id = %(pipeline_id)s
                                                and name = %(batch)s::text))
                         and exists (select 1 from hf_worker where id = %(worker_id)s and gone_at is null)
                       order by priority desc, due_at, id
                       limit %(limit)s
                         for update skip locked))
returning id, fence, batch_id, key, payload::text, fingerprint, generation,
          step_id, cursor::text, moves, attempts, crashes, coalesce(%(now)s::timestamptz, now()) - moved_at, reuses::text,
          nullif(plan_id, %(plan_id)s), priority
