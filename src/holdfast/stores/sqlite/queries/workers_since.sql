-- Who was at work since a moment.
select distinct name
  from hf_worker
 where beat_at >= :since
 order by name
 limit :limit
