-- Add what a commit has spent, if the collection has a budget.
insert into rag_spending (collection, pages, service_pages, tokens)
select collection, :pages, :service_pages, :tokens
  from rag_budget
 where collection = :collection
