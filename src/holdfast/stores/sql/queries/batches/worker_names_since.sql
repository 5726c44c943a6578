-- Return the names of the workers that were active since a time.
select distinct name -- on sqlite
select distinct name collate "C" -- on postgresql
  from hf_worker
 where beat_at >= :since
 order by 1
 limit :limit
