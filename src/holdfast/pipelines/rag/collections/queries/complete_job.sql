-- Save the result of a job that is completed for the first time.
update rag_job
   set result = :result
 where collection = :collection
   and id = :id
   and result is null
