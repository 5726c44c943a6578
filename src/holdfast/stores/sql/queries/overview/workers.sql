-- Return the workers that have not left.
select id, name, host, pid, born, lease, enlisted_at, beat_at, beat_at + lease < :now
  from hf_worker
 where gone_at is null
 order by id
