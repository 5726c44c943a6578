-- Create the table of remarks: why a document that is done has no text to search, and how many of its parts were left
-- out. A document without a remark has no row.
create table if not exists rag_remark (
  collection text not null,
  source text not null,
  key text not null,
  code text not null,
  reason text not null,
  skipped integer not null,
  primary key (collection, source, key)
)
