-- The index of document search. It is in the database of the checkpoints, and written in the same transactions.
--
-- As in SQLite, a collection has documents, and a document has versions. Searches find one version of a document,
-- `version`. The old version stays visible until the new one is complete. Vectors are saved by the hash of their content.
-- Each model has a table of its own (rag_vector_N, where N is the id of the model), because an index on vectors needs
-- vectors of one dimension. Searches read the database each time, so there is no cache to keep up to date.

create table if not exists rag_model (
  id integer generated always as identity primary key,
  name text not null unique,
  dimension integer not null check (dimension > 0)
);

create table if not exists rag_collection (
  id integer generated always as identity primary key,
  name text not null unique,
  settings jsonb not null,
  searched text,                        -- the settings that searches use until the vectors of the new settings exist
  created_at timestamptz not null default now()
);

create table if not exists rag_document (
  id bigint generated always as identity primary key,
  collection_id integer not null references rag_collection (id),
  source text not null,
  key text not null,
  kind text not null default '',
  title text not null default '',
  title_terms text not null default '', -- the terms of the title, each between spaces
  language text not null default '',    -- the code of its language, '' if it is not known
  metadata jsonb not null default '{}',
  coming jsonb,                         -- kind, title, metadata and number of the version that is being added
  version bigint,                       -- the version that searches find, null: none
  chunked bigint,                       -- the latest version whose chunks are all here
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

-- The rules by which the words of chunks were made. While they are made again, `rebuilt` is the last document that has
-- new ones.
create table if not exists rag_tokenizer (
  version integer not null,
  rebuilt bigint not null default 0
);

-- The languages of documents. A question is stemmed by the rules of each.
create table if not exists rag_language (
  language text primary key
);
alter table rag_document add column if not exists language text not null default '';
alter table rag_document add column if not exists title_terms text not null default '';

-- The metadata of pages. Pages without metadata have no row.
create table if not exists rag_page (
  document_id bigint not null,
  version bigint not null,
  page integer not null,
  metadata jsonb not null,
  primary key (document_id, version, page)
);

create table if not exists rag_meaning (
  document_id bigint not null,
  model_id integer not null,
  version bigint not null,
  primary key (document_id, model_id)
);

-- Vector spaces in an external vector store: one for each collection, place and model. The record exists before the space
-- is created, and until it is deleted.
create table if not exists rag_space (
  id integer generated always as identity primary key,
  collection text,                      -- null: abandoned, the space can be deleted
  place text not null,                  -- as the settings of the collection name it
  model text not null,
  name text not null unique,            -- its name in the vector store, never used again
  unique (collection, place, model)
);

-- The versions of documents that are in a vector space.
create table if not exists rag_published (
  space_id integer not null,
  document_id bigint not null,
  version bigint not null,
  primary key (space_id, document_id, version)
);

-- The files of each source, as they were at the last scan. A deleted file has no hash. `times` counts how often it was
-- deleted, so that the same content is a new document if it comes back.
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
