-- Create the table of budgets: how much a collection may spend.
create table if not exists rag_budget (
  collection text not null primary key,
  limits text not null
)
