-- Save that all files of a job's source were submitted.
update rag_job
   set scanned = 1
 where collection = :collection
   and id = :id
