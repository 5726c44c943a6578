-- Return a batch whose deadline has passed and whose documents were not all ended since, the earliest deadline first.
select id
  from hf_batch
 where pipeline_id = :pipeline_id
   and deadline_at <= :now
   and expired_at is null
   and state <> 'closed'
 order by deadline_at, id
 limit 1
