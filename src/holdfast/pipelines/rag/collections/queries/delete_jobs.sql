-- Delete the jobs of one source, or of all sources of a collection.
delete from rag_job
 where collection = :collection
   and source = coalesce(:source, source)
