-- Return the metadata of a source.
select metadata
  from rag_source
 where collection = :collection
   and source = :source
