-- Read a job.
select source, scanned, result
  from rag_job
 where collection = :collection
   and id = :id
