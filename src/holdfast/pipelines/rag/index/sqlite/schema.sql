-- The index of document search, beside the checkpoints and in one transaction with them.
--
-- A collection has documents; a document has versions, of which searches see one: `version`. A version is the generation
-- in which the document was chunked. Its chunks can be found by their words once it is the one that is seen, and by their
-- meaning once `rag_meaning` names it for the collection's model. The old version is seen until the new one is complete.
-- Vectors are remembered by the content that they stand for, so what did not change is not embedded again.

create table if not exists rag_collection (
  id integer primary key,
  name text not null unique,
  settings text not null,
  searched text,  -- the embedder whose vectors are searched while those of another are being made; else null
  created_at integer not null default (unixepoch())
);

create table if not exists rag_model (
  id integer primary key,
  name text not null unique,
  dimension integer not null check (dimension > 0)
);

create table if not exists rag_document (
  id integer primary key,
  collection_id integer not null references rag_collection (id),
  source text not null,
  key text,                             -- null: it was forgotten
  kind text not null default '',
  title text not null default '',
  metadata text not null default '{}',
  coming text,                          -- kind, title and metadata of the version that is being made, and its number
  version integer,                      -- what searches see; null: nothing
  chunked integer,                      -- the latest version that is complete in words
  changed integer not null,             -- grows with every change that searches have to learn
  unique (collection_id, source, key)
);
create index if not exists rag_document_changed on rag_document (changed);

create table if not exists rag_chunk (
  id integer primary key,
  document_id integer not null,
  version integer not null,
  position integer not null,
  page integer not null,
  start integer not null,
  stop integer not null,
  hash blob not null,
  unique (document_id, version, position)
);

-- The text of chunks, by the number of the chunk.
create virtual table if not exists rag_words using fts5 (text, title, tokenize = 'porter unicode61 remove_diacritics 2');

-- What is added is merged less often than by default, so that the millionth chunk costs what the first did.
insert into rag_words (rag_words, rank)
select 'automerge', 16
 where not exists (select 1 from rag_words_config where k = 'automerge');

-- How often a word occurs, for questions that begin with the rarest.
create virtual table if not exists rag_word using fts5vocab (rag_words, row);

create table if not exists rag_vector (
  id integer primary key,
  model_id integer not null,
  hash blob not null,
  vector blob not null,
  unique (model_id, hash)
);

create table if not exists rag_meaning (
  document_id integer not null,
  model_id integer not null,
  version integer not null,
  primary key (document_id, model_id)
) without rowid;

-- Where vectors are that are searched elsewhere: a space for each collection, place and model. It is known here before it is
-- made there, and until it is gone there.
create table if not exists rag_space (
  id integer primary key,
  collection text,                      -- null: nobody's any more, and to be dropped
  place text not null,                  -- as the settings of the collection say it
  model text not null,
  name text not null unique,            -- what it is called there, which nothing else ever was
  unique (collection, place, model)
);

-- The versions of documents that are in a space. Those that are seen no more are swept away.
create table if not exists rag_published (
  space_id integer not null,
  document_id integer not null,
  version integer not null,
  primary key (space_id, document_id, version)
) without rowid;

-- The files of each source, as they were when they were last looked at. One that is gone has no hash; `times` counts how
-- often it went, so that the same content that comes back is a new document and not one that is known.
create table if not exists rag_file (
  collection text not null,
  source text not null,
  key text not null,
  size integer not null,
  mtime_ns integer not null,
  hash text,
  looked_at integer not null,
  etag text not null default '',
  times integer not null default 0,
  primary key (collection, source, key)
) without rowid;
