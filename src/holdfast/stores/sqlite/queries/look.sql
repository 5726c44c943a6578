-- Where these documents stand.
select *
  from hf_standing
 where id in (select value from json_each(:ids))
 order by id
