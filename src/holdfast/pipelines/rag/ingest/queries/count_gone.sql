-- Count those of these files that are gone.
select count(*)
  from rag_file
 where collection = :collection
   and source = :source
   and key in :keys::text[]
   and hash is null
