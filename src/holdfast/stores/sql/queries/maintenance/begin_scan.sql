-- Record that a scan of a pipeline begins, unless one began a short time ago. A time in the future is of a wrong clock.
update hf_pipeline
   set scanned_at = :now
 where id = :pipeline_id
   and (scanned_at is null or scanned_at + :every::interval <= :now or scanned_at > :now)
