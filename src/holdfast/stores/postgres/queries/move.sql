-- Moves checkpoints on where generation, fence and moves still match, and keeps what the steps made with them: one
-- statement for a whole group, so one round trip and one sync. Answers the documents that did not match.
-- Documents that go on stay with their worker; the others leave it: done, or parked at a gate until then.
-- "d.id = any" says nothing new, but pins the plan to the primary key: the join alone may read the whole table.
-- That the document runs is asked with "coalesce", which the planner cannot estimate: from statistics of a quiet hour it
-- would expect one row, and compare every document of the group with every other.
with moved as (
  update hf_document d
     set step_id = asked.step_id, cursor = asked.cursor, moves = d.moves + 1, crashes = 0,
         state = coalesce(asked.state, 'running'),
         worker_id = case when asked.state is null then d.worker_id end,
         worked_by = case when asked.state is null then d.worked_by else d.worker_id end,
         attempts = case when asked.state is not null then 0 when asked.stalled is null then 1 else d.attempts end,
         reason = case when asked.state is null then d.reason else asked.reason end,
         deadline_at = case when asked.state is null
                            then coalesce(%(now)s::timestamptz, now()) + asked.timeout * interval '1 microsecond' end,
         due_at = case when asked.state = 'paused'
                       then coalesce(%(now)s::timestamptz, now()) + asked.timeout * interval '1 microsecond' end,
         serves = case when asked.state = 'done' then null else d.serves end,
         moved_at = coalesce(%(now)s::timestamptz, now())
    from unnest(%(ids)s::bigint[], %(generations)s::int[], %(fences)s::bigint[], %(moves)s::bigint[],
                %(step_ids)s::bigint[], %(cursors)s::json[], %(timeouts)s::bigint[], %(states)s::text[],
                %(reasons)s::text[], %(stalled)s::int[])
         as asked (id, generation, fence, moves, step_id, cursor, timeout, state, reason, stalled)
   where d.id = any(%(ids)s::bigint[])
     and d.id = asked.id
     and d.generation = asked.generation
     and d.fence = asked.fence
     and d.moves = asked.moves
     and coalesce(d.worker_id, 0) <> 0
  returning d.id, d.generation
),
kept as (
  insert into hf_item (document_id, generation, step_id, position, items, value, data, blob_hash, kept_at)
  select moved.id, moved.generation, item.step_id, item.position, item.items, item.value, item.data, item.blob_hash,
         coalesce(%(now)s::timestamptz, now())
    from unnest(%(item_ids)s::bigint[], %(item_step_ids)s::bigint[], %(positions)s::bigint[], %(items)s::int[], %(values)s::json[],
                %(datas)s::bytea[], %(blob_hashes)s::bytea[])
         as item (document_id, step_id, position, items, value, data, blob_hash)
    join moved on moved.id = item.document_id
)
select asked.id
  from unnest(%(ids)s::bigint[]) as asked (id)
  left join moved on moved.id = asked.id
 where moved.id is null
