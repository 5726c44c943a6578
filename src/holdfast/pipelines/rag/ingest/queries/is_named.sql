-- Return a row if somebody named this source here.
select 1
  from rag_source
 where collection = :collection
   and source = :source
