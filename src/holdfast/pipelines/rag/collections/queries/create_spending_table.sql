-- Create the table of what collections with a budget have spent. Each commit adds a row, so workers do not wait for each
-- other.
create table if not exists rag_spending (
  collection text not null,
  pages bigint not null,
  service_pages bigint not null,
  tokens bigint not null
)
