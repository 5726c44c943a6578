-- Save the settings of a collection, and those that it is searched by.
update rag_collection
   set settings = :settings,
       searched = :searched
 where name = :name
