-- The index of document search, beside the checkpoints and in one transaction with them.
--
-- As in SQLite: a collection has documents; a document has versions, of which searches see one: `version`. The old version
-- is seen until the new one is complete. Vectors are remembered by the content that they stand for, in a table for each
-- model (rag_vector_N, N being the model's number), whose index can hold only vectors of one length.
-- Searches ask the database every time, so nothing has to tell them what changed.

create table if not exists rag_model (
  id integer generated always as identity primary key,
  name text not null unique,
  dimension integer not null check (dimension > 0)
);

create table if not exists rag_collection (
  id integer generated always as identity primary key,
  name text not null unique,
  settings jsonb not null,
  searched text,  -- the embedder whose vectors are searched while those of another are being made; else null
  created_at timestamptz not null default now()
);

create table if not exists rag_document (
  id bigint generated always as identity primary key,
  collection_id integer not null references rag_collection (id),
  source text not null,
  key text not null,
  kind text not null default '',
  title text not null default '',
  metadata jsonb not null default '{}',
  coming jsonb,                         -- kind, title and metadata of the version that is being made, and its number
  version bigint,                       -- what searches see; null: nothing
  chunked bigint,                       -- the latest version that is complete in words
  unique (collection_id, source, key)
);

create table if not exists rag_chunk (
  id bigint generated always as identity primary key,
  document_id bigint not null,
  version bigint not null,
  position integer not null,
  page integer not null,
  start integer not null,
  stop integer not null,
  hash bytea not null,
  text text not null,
  words tsvector,
  unique (document_id, version, position)
);
create index if not exists rag_chunk_hash on rag_chunk (hash);
create index if not exists rag_chunk_words on rag_chunk using gin (words);

create table if not exists rag_meaning (
  document_id bigint not null,
  model_id integer not null,
  version bigint not null,
  primary key (document_id, model_id)
);

-- Where vectors are that are searched elsewhere: a space for each collection, place and model. It is known here before it is
-- made there, and until it is gone there.
create table if not exists rag_space (
  id integer generated always as identity primary key,
  collection text,                      -- null: nobody's any more, and to be dropped
  place text not null,                  -- as the settings of the collection say it
  model text not null,
  name text not null unique,            -- what it is called there, which nothing else ever was
  unique (collection, place, model)
);

-- The versions of documents that are in a space. Those that are seen no more are swept away.
create table if not exists rag_published (
  space_id integer not null,
  document_id bigint not null,
  version bigint not null,
  primary key (space_id, document_id, version)
);

-- The files of each source, as they were when they were last looked at. One that is gone has no hash; `times` counts how
-- often it went, so that the same content that comes back is a new document and not one that is known.
create table if not exists rag_file (
  collection text not null,
  source text not null,
  key text not null,
  size bigint not null,
  mtime_ns bigint not null,
  hash text,
  looked_at bigint not null,
  etag text not null default '',
  times integer not null default 0,
  primary key (collection, source, key)
);
