-- Who was at work since a moment.
select distinct name collate "C"
  from hf_worker
 where beat_at >= %(since)s
 order by 1
 limit %(limit)s
