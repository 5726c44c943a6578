-- List all collections, by name.
select name, settings, searched
  from rag_collection
 order by name
