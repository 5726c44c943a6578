-- Create the table of jobs: ingests that have an id. `scanned` is 1 after all files of the source were submitted. A
-- completed job has its result.
create table if not exists rag_job (
  collection text not null,
  id text not null,
  source text not null,
  scanned integer not null default 0,
  result text,
  primary key (collection, id)
)
