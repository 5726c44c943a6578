-- Record an item that a step could not process.
insert into hf_aside (document_id, generation, step_id, position, tries, error, set_aside_at)
values (:document_id, :generation, :step_id, :position, :tries, :error, :now)
    on conflict (document_id, generation, step_id, position) do update
   set tries = excluded.tries, error = excluded.error, set_aside_at = excluded.set_aside_at
