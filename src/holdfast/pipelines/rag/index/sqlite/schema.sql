-- The index of document search. It is in the database of the checkpoints, and written in the same transactions.
--
-- A collection has documents, and a document has versions. A version is the generation in which the document was chunked.
-- Searches find one version of a document, `version`: by keyword at once, and by vector if `rag_meaning` names it for the
-- model of the collection. The old version stays visible until the new one is complete.
-- Vectors are saved by the hash of their content, so unchanged content is not embedded again.

create table if not exists rag_collection (
  id integer primary key,
  name text not null unique,
  settings text not null,
  searched text,                        -- the settings that searches use until the vectors of the new settings exist
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
  key text,                             -- null: the document was deleted
  kind text not null default '',
  title text not null default '',
  title_terms text not null default '', -- the terms of the title, each between spaces
  language text not null default '',    -- the code of its language, '' if it is not known
  metadata text not null default '{}',
  coming text,                          -- kind, title, metadata and number of the version that is being added
  version integer,                      -- the version that searches find, null: none
  chunked integer,                      -- the latest version whose chunks are all here
  changed integer not null,             -- grows with every change that caches of vectors have to read
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

-- The metadata of pages. Pages without metadata have no row.
create table if not exists rag_page (
  document_id integer not null,
  version integer not null,
  page integer not null,
  metadata text not null,
  primary key (document_id, version, page)
) without rowid;

-- The text of chunks, and the terms of text and title, as the tokenizer cut them. The rowid is the id of the chunk.
-- 'ascii' divides terms at spaces only: all other characters in them are letters and digits.
create virtual table if not exists rag_words using fts5 (terms, title, text unindexed, tokenize = 'ascii');

-- The rules by which terms were made. While they are made again, `rebuilt` is the last document that has new ones.
create table if not exists rag_tokenizer (
  version integer not null,
  rebuilt integer not null default 0
);

-- The languages of documents. A question is stemmed by the rules of each.
create table if not exists rag_language (
  language text primary key
) without rowid;

-- New text is merged less often than by default, so that the millionth chunk costs as much as the first.
insert into rag_words (rag_words, rank)
select 'automerge', 16
 where not exists (select 1 from rag_words_config where k = 'automerge');

-- The number of chunks that have a word. Searches select chunks by the rarest words.
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

-- Vector spaces in an external vector store: one for each collection, place and model. The record exists before the space
-- is created, and until it is deleted.
create table if not exists rag_space (
  id integer primary key,
  collection text,                      -- null: abandoned, the space can be deleted
  place text not null,                  -- as the settings of the collection name it
  model text not null,
  name text not null unique,            -- its name in the vector store, never used again
  unique (collection, place, model)
);

-- The versions of documents that are in a vector space.
create table if not exists rag_published (
  space_id integer not null,
  document_id integer not null,
  version integer not null,
  primary key (space_id, document_id, version)
) without rowid;

-- The files of each source, as they were at the last scan. A deleted file has no hash. `times` counts how often it was
-- deleted, so that the same content is a new document if it comes back.
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
