-- holdfast on SQLite.
--
-- A pipeline has steps and, over time, plans (the shapes it had). Documents belong to a batch of a pipeline. A row of
-- hf_document is a checkpoint: generation, step, cursor, and `moves`, the number of moves that led there. The step is
-- the one to run next. A document without a step is done.
--
-- A document is pinned to the plan under which its work was done. If it began under one plan and went on under another,
-- it is pinned to a plan without declared_at: nobody declared that plan; it describes what was really done.
--
-- A worker that claims a document becomes its worker_id and raises its fence. Every later write names the fence,
-- generation and moves that it expects. A worker that lost the document matches no row. worked_by is the worker that
-- had the document last, until it starts again. That worker may have been deleted since.
--
-- What steps keep is in hf_item, by position. Position -1 is the value of a step that returned one value and not a
-- list. JSON is text, bytes are blobs, and large values are in hf_blob under their hash. Neighbouring items that were
-- stored together share a row: where items > 1, the value is a JSON list of that many. Times are microseconds since
-- 1970, UTC: select datetime(moved_at / 1000000, 'unixepoch').
--
-- hf_journal has every event that is not plain progress, of documents and of batches. hf_manifest has the keys of all
-- documents that a batch expects, so that a missing one can be named. Deleted documents are still counted, in
-- gone_done, gone_dead and gone_cancelled of their batch. The views hf_documents and hf_items are for people.
--
-- Tables are strict: otherwise SQLite would accept a text where a number belongs, and reading it would fail.

create table hf_pipeline (
  id integer primary key,
  name text not null unique
) strict;

create table hf_step (
  id integer primary key,
  pipeline_id integer not null references hf_pipeline,
  name text not null,
  unique (pipeline_id, name)
) strict;

create table hf_plan (
  id integer primary key,
  pipeline_id integer not null references hf_pipeline,
  digest text not null,
  shape text not null check (json_valid(shape)),
  step_ids text not null check (json_valid(step_ids)),
  declared_at integer,
  unique (pipeline_id, digest)
) strict;

create table hf_batch (
  id integer primary key,
  pipeline_id integer not null references hf_pipeline,
  name text not null,
  state text not null default 'open' check (state in ('open', 'sealed', 'closed')),
  expected integer not null default 0 check (expected >= 0),
  gone_done integer not null default 0 check (gone_done >= 0),
  gone_dead integer not null default 0 check (gone_dead >= 0),
  gone_cancelled integer not null default 0 check (gone_cancelled >= 0),
  created_at integer not null,
  sealed_at integer,
  closed_at integer,
  report text,
  unique (pipeline_id, name),
  check ((state = 'closed') = (closed_at is not null)),
  check ((state = 'closed') = (report is not null))
) strict;

create table hf_manifest (
  batch_id integer not null references hf_batch,
  submission integer not null,
  part integer not null,
  keys text not null,
  primary key (batch_id, submission, part)
) without rowid, strict;

create table hf_worker (
  id integer primary key autoincrement,
  name text not null,
  host text not null,
  pid integer not null,
  born text not null,
  lease integer not null check (lease > 0),
  enlisted_at integer not null,
  beat_at integer not null,
  gone_at integer
) strict;

-- No id is used twice: a worker that still knows a deleted document must not find another one under its id.
-- worker_id and worked_by are no foreign keys: to delete a worker, SQLite would read all documents.
create table hf_document (
  id integer primary key autoincrement,
  pipeline_id integer not null references hf_pipeline,
  batch_id integer not null references hf_batch,
  plan_id integer not null references hf_plan,
  key text not null,
  payload text not null,
  fingerprint text not null,
  submission integer not null,
  part integer not null,
  priority integer not null default 0,
  state text not null default 'waiting'
    check (state in ('waiting', 'running', 'paused', 'done', 'dead', 'cancelled')),
  generation integer not null default 0 check (generation >= 0),
  step_id integer references hf_step,
  cursor text,
  moves integer not null default 0 check (moves >= 0),
  fence integer not null default 0 check (fence >= 0),
  worker_id integer,
  worked_by integer,
  attempts integer not null default 0 check (attempts >= 0),
  crashes integer not null default 0 check (crashes >= 0),
  due_at integer,
  deadline_at integer,
  claimed_at integer,
  reason text not null default '',
  error text not null default '',
  accepted_by text,
  reuses text,
  serves text,
  submitted_at integer not null,
  moved_at integer not null,
  cleaned_at integer,
  unique (batch_id, key),
  check ((state = 'running') = (worker_id is not null)),
  check ((state = 'done') = (step_id is null)),
  check (state <> 'waiting' or due_at is not null),
  check (state = 'running' or deadline_at is null),
  check (state <> 'running' or claimed_at is not null),
  check (state = 'dead' or accepted_by is null),
  check (state in ('done', 'dead', 'cancelled') or cleaned_at is null),
  check (reuses is null or json_type(reuses) = 'object')
) strict;

-- Indexes for claims, reclaims and wake-ups. A move changes none of them.
create index hf_document_waiting on hf_document (pipeline_id, priority desc, due_at, id) where state = 'waiting';
create index hf_document_suspect on hf_document (pipeline_id, due_at) where state = 'waiting' and crashes >= 2;
create index hf_document_running on hf_document (worker_id) where state = 'running';
create index hf_document_paused on hf_document (pipeline_id, due_at) where state = 'paused';
create index hf_document_dead on hf_document (pipeline_id, id) where state = 'dead';

create table hf_item (
  document_id integer not null,
  generation integer not null,
  step_id integer not null,
  position integer not null check (position >= -1),
  items integer not null default 1 check (items between 1 and 1000000),
  value text,
  data blob,
  blob_hash blob,
  kept_at integer not null,
  primary key (document_id, generation, step_id, position),
  check ((value is not null) + (data is not null) + (blob_hash is not null) = 1)
) without rowid, strict;
create index hf_item_blob on hf_item (blob_hash) where blob_hash is not null;

create table hf_blob (
  hash blob primary key,
  media text not null check (media in ('json', 'bytes')),
  content blob not null,
  kept_at integer not null
) without rowid, strict;

create table hf_aside (
  document_id integer not null,
  generation integer not null,
  step_id integer not null,
  position integer not null,
  tries integer not null check (tries >= 1),
  error text not null check (json_valid(error)),
  set_aside_at integer not null,
  primary key (document_id, generation, step_id, position)
) without rowid, strict;

create table hf_permit (
  step_id integer not null,
  document_id integer not null,
  fence integer not null,
  primary key (step_id, document_id)
) without rowid, strict;

create table hf_journal (
  id integer primary key,
  document_id integer,
  batch_id integer references hf_batch,
  at integer not null,
  verb text not null,
  who text not null,
  generation integer not null default 0,
  step text,
  cursor text,
  detail text,
  check ((document_id is null) <> (batch_id is null))
) strict;
create index hf_journal_document on hf_journal (document_id, id) where document_id is not null;
create index hf_journal_batch on hf_journal (batch_id, id) where batch_id is not null;

-- How long the bodies of a step took, for all documents that went through it. The ETA is computed from it.
create table hf_pace (
  step_id integer primary key references hf_step,
  documents integer not null check (documents >= 0),
  seconds real not null check (seconds >= 0)
) strict;

create view hf_standing as
select d.id, p.name as pipeline, b.name as batch, d.key, d.payload, d.fingerprint, d.priority, d.state, d.generation,
       s.name as step, d.cursor, d.moves, d.attempts, d.crashes, d.reason, coalesce(w.name, '') as holder,
       d.submitted_at, d.moved_at, d.due_at, d.error, coalesce(d.accepted_by, '') as accepted_by, d.claimed_at,
       d.deadline_at, d.cleaned_at, d.plan_id, l.name as worked_by, d.batch_id, d.pipeline_id
  from hf_document d
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  left join hf_step s on s.id = d.step_id
  left join hf_worker w on w.id = d.worker_id
  left join hf_worker l on l.id = d.worked_by;

create view hf_documents as
select pipeline, batch, key, state, step, cursor, generation, moves, attempts, crashes, priority, holder,
       worked_by, reason,
       datetime(submitted_at / 1000000, 'unixepoch') as submitted,
       datetime(moved_at / 1000000, 'unixepoch') as moved,
       datetime(due_at / 1000000, 'unixepoch') as due, payload, fingerprint, id
  from hf_standing;

create view hf_items as
select p.name as pipeline, b.name as batch, d.key, i.generation, s.name as step,
       i.position + coalesce(e.key, 0) as position,
       case when i.items > 1 then i.value -> e.fullkey else coalesce(i.value, i.data, x.content) end as value,
       datetime(i.kept_at / 1000000, 'unixepoch') as kept
  from hf_item i
  join hf_document d on d.id = i.document_id
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  join hf_step s on s.id = i.step_id
  left join hf_blob x on x.hash = i.blob_hash
  left join json_each(case when i.items > 1 then i.value end) e on true;
