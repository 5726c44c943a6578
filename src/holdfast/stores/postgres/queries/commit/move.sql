-- Move checkpoints whose generation, fence, moves, step and cursor still match, and store the items of the moves. It is
-- one statement for a whole group: one round trip and one sync. Return the documents that did not match. A cursor '*'
-- matches any.
-- Documents that go on stay with their worker. The others leave it: they are done, or paused at a gate.
-- "d.id = any" is redundant, but makes the planner use the primary key. The join alone may read the whole table.
-- "coalesce" asks whether the document runs. The planner cannot estimate it: from statistics of a quiet hour it would
-- expect one row, and compare every document of the group with every other.
with moved as (
  update hf_document d
     set step_id = asked.step_id, cursor = asked.cursor, moves = d.moves + 1, crashes = 0,
         losses = 0, deferrals = 0, deferred_at = null, interruptions = 0,
         effects = case when asked.effects is null then d.effects
                        else json_strip_nulls((coalesce(d.effects, '{}')::jsonb || asked.effects::jsonb)::json) end,
         extents = coalesce(asked.extents, d.extents),
         totals = coalesce(asked.totals, d.totals),
         state = coalesce(asked.state, 'running'),
         worker_id = case when asked.state is null then d.worker_id end,
         worked_by = case when asked.state is null then d.worked_by else d.worker_id end,
         attempts = case when asked.state is not null then 0 when asked.stalled is null then 1 else d.attempts end,
         reason = case when asked.state is null then d.reason else asked.reason end,
         code = case when asked.state is null then d.code else asked.code end,
         deadline_at = case when asked.state is null
                            then :now + asked.timeout * interval '1 microsecond' end,
         due_at = case when asked.state = 'paused'
                       then :now + nullif(asked.timeout, 0) * interval '1 microsecond' end,
         waits_since = case when asked.state = 'paused' then :now else d.waits_since end,
         serves = case when asked.state = 'done' then null else d.serves end,
         moved_at = :now
    from unnest(:ids::bigint[], :generations::int[], :fences::bigint[], :moves::bigint[],
                :before_ids::bigint[], :cursors_before::text[],
                :step_ids::bigint[], :cursors::json[], :timeouts::bigint[], :states::text[],
                :reasons::text[], :codes::text[], :stalled::int[], :effects::json[], :extents::json[],
                :totals::json[])
         as asked (id, generation, fence, moves, before_id, cursor_before, step_id, cursor, timeout, state, reason, code, stalled, effects, extents, totals)
   where d.id in :ids::bigint[]
     and d.id = asked.id
     and d.generation = asked.generation
     and d.fence = asked.fence
     and d.moves = asked.moves
     and d.step_id = asked.before_id
     and (d.cursor::text is not distinct from asked.cursor_before or asked.cursor_before = '*')
     and coalesce(d.worker_id, 0) <> 0
  returning d.id, d.generation
),
kept as (
  insert into hf_item (document_id, generation, step_id, position, items, value, data, blob_hash, kept_at)
  select moved.id, moved.generation, item.step_id, item.position, item.items, item.value, item.data, item.blob_hash,
         :now
    from unnest(:item_ids::bigint[], :item_step_ids::bigint[], :positions::bigint[], :items::int[], :values::json[],
                :datas::bytea[], :blob_hashes::bytea[])
         as item (document_id, step_id, position, items, value, data, blob_hash)
    join moved on moved.id = item.document_id
)
select asked.id
  from unnest(:ids::bigint[]) as asked (id)
  left join moved on moved.id = asked.id
 where moved.id is null
