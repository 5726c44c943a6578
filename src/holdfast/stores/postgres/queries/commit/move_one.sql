-- Do what move.sql does for one document that goes on, with one row of items or none: a slow, expensive body commits as
-- soon as it ends. It costs the planner a third of move.sql.
with moved as (
  update hf_document d
     set step_id = :step_id, cursor = :cursor::json, moves = d.moves + 1, attempts = 1, crashes = 0,
         losses = 0, deferrals = 0, deferred_at = null, interruptions = 0,
         effects = case when :effects::json is null then d.effects
                        else json_strip_nulls((coalesce(d.effects, '{}')::jsonb || :effects::jsonb)::json) end,
         extents = coalesce(:extents::json, d.extents),
         totals = coalesce(:totals::json, d.totals),
         deadline_at = :now + :timeout::bigint * interval '1 microsecond',
         moved_at = :now
   where d.id = :id
     and d.generation = :generation
     and d.fence = :fence
     and d.moves = :moves
     and d.step_id = :before_id
     and (d.cursor::text is not distinct from :cursor_before::text or :cursor_before::text = '*')
     and d.worker_id is not null
  returning d.id
),
kept as (
  insert into hf_item (document_id, generation, step_id, position, items, value, kept_at)
  select id, :generation, :item_step_id, :position, :items, :value::json,
         :now
    from moved
   where :value::text is not null
)
select id
  from moved
