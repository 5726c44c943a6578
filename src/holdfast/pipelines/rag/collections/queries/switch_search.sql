-- Search a collection by its own settings from now on.
update rag_collection
   set searched = null
 where name = :name
