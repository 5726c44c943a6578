-- Create the table of sources that somebody named, with their metadata.
create table if not exists rag_source (
  collection text not null,
  source text not null,
  metadata text not null default '{}',
  primary key (collection, source)
)
