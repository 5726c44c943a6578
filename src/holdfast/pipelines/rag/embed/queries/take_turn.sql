-- Take the next turn of a service if it comes within `patience` seconds, and return the seconds until it ends.
-- A time that is too far ahead was written before a clock was set back, and is not used.
-- `where true` is for SQLite: otherwise it reads `on conflict` as the condition of a join.
with clock (now) as (
    select cast(:at as double precision) -- on sqlite
    select cast(extract(epoch from clock_timestamp()) as double precision) -- on postgresql
)
insert into rag_meter as meter (name, next_at, ahead)
select :name, now + :cost, :patience + :cost
  from clock
 where true
on conflict (name) do update
   set next_at = excluded.next_at - (select now from clock)
               + case when meter.next_at between (select now from clock)
                                             and (select now from clock) + meter.ahead + :slack
                      then meter.next_at
                      else (select now from clock)
                 end,
       ahead = excluded.ahead
 where meter.next_at <= (select now from clock) + :patience
    or meter.next_at > (select now from clock) + meter.ahead + :slack
returning next_at - (select now from clock)
