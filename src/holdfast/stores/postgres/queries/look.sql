-- Where these documents stand.
select *
  from hf_standing
 where id = any(%(ids)s::bigint[])
 order by id
