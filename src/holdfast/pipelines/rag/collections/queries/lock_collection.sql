-- Lock the row of a collection until the end of the transaction. Only PostgreSQL needs this.
select 1
  from rag_collection
 where name = :name
   for update
