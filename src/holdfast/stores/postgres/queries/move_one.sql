-- The same as move.sql for one document that goes on, with one row of items or none: what a slow, dear body commits the
-- moment it ends. It says nothing that move.sql could not, but costs the planner a third.
with moved as (
  update hf_document d
     set step_id = %(step_id)s, cursor = %(cursor)s::json, moves = d.moves + 1, attempts = 1, crashes = 0,
         deadline_at = coalesce(%(now)s::timestamptz, now()) + %(timeout)s::bigint * interval '1 microsecond',
         moved_at = coalesce(%(now)s::timestamptz, now())
   where d.id = %(id)s
     and d.generation = %(generation)s
     and d.fence = %(fence)s
     and d.moves = %(moves)s
     and d.worker_id is not null
  returning d.id
),
kept as (
  insert into hf_item (document_id, generation, step_id, position, items, value, kept_at)
  select id, %(generation)s, %(item_step_id)s, %(position)s, %(items)s, %(value)s::json,
         coalesce(%(now)s::timestamptz, now())
    from moved
   where %(value)s::text is not null
)
select id
  from moved
