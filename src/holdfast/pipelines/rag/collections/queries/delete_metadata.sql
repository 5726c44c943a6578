-- Delete the metadata of one source, or of all sources of a collection.
delete from rag_source
 where collection = :collection
   and source = coalesce(:source, source)
