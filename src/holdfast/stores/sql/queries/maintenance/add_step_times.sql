-- Add to the history of steps how long their bodies took since the last time, and when the last body began that worked.
-- The order prevents deadlocks.
insert into hf_step_time as p (step_id, documents, seconds, worked_at)
select spent.step_id, spent.documents, spent.seconds, case when spent.documents > 0 then coalesce(spent.worked_at, :now) end
  from rows(:spent) as spent (step_id bigint, documents bigint, seconds float8, worked_at timestamptz)
 where true -- on sqlite
 order by spent.step_id
    on conflict (step_id) do update
   set documents = p.documents + excluded.documents, seconds = p.seconds + excluded.seconds,
       worked_at = coalesce(excluded.worked_at, p.worked_at)
