-- Return the seconds until the next turn of a service.
select next_at - cast(:at as double precision) -- on sqlite
select next_at - cast(extract(epoch from clock_timestamp()) as double precision) -- on postgresql
  from rag_meter
 where name = :name
