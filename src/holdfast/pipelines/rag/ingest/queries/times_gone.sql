-- Return how often a file was gone.
select times
  from rag_file
 where collection = :collection
   and source = :source
   and key = :key
