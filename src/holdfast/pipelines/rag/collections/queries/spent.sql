-- Add up what a collection has spent.
select cast(coalesce(sum(pages), 0) as bigint), cast(coalesce(sum(service_pages), 0) as bigint),
       cast(coalesce(sum(tokens), 0) as bigint)
  from rag_spending
 where collection = :collection
