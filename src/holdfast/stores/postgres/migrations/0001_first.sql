-- holdfast on PostgreSQL.
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
-- list. Neighbouring items that were stored together share a row: where items > 1, the value is a JSON list of that
-- many. Bytes are bytea, and large values are in hf_blob under their hash. JSON is `json`, not `jsonb`: it returns
-- exactly the text that was stored (number forms, order of keys, \u0000), costs less to write, and ->> works on it too.
-- Our own queries read it as ::text, because psycopg would decode a json column, and holdfast decodes by itself.
--
-- hf_journal has every event that is not plain progress, of documents and of batches. hf_manifest has the keys of all
-- documents that a batch expects, so that a missing one can be named. Deleted documents are still counted, in
-- gone_done, gone_dead and gone_cancelled of their batch. The views hf_documents and hf_items are for people.
--
-- Columns that claims and moves write (step_id, plan_id, worker_id, blob_hash) are no foreign keys: PostgreSQL would
-- look up and lock the other row for every document of every group.

create table hf_pipeline (
  id bigint generated always as identity primary key,
  name text not null unique
);

create table hf_step (
  id bigint generated always as identity primary key,
  pipeline_id bigint not null references hf_pipeline,
  name text not null,
  unique (pipeline_id, name)
);

create table hf_plan (
  id bigint generated always as identity primary key,
  pipeline_id bigint not null references hf_pipeline,
  digest text not null,
  shape json not null,
  step_ids json not null,
  declared_at timestamptz,
  unique (pipeline_id, digest)
);

create table hf_batch (
  id bigint generated always as identity primary key,
  pipeline_id bigint not null references hf_pipeline,
  name text not null,
  state text not null default 'open' check (state in ('open', 'sealed', 'closed')),
  expected bigint not null default 0 check (expected >= 0),
  gone_done bigint not null default 0 check (gone_done >= 0),
  gone_dead bigint not null default 0 check (gone_dead >= 0),
  gone_cancelled bigint not null default 0 check (gone_cancelled >= 0),
  created_at timestamptz not null,
  sealed_at timestamptz,
  closed_at timestamptz,
  report json,
  unique (pipeline_id, name),
  check ((state = 'closed') = (closed_at is not null)),
  check ((state = 'closed') = (report is not null))
);

create table hf_manifest (
  batch_id bigint not null references hf_batch,
  submission bigint not null,
  part bigint not null,
  keys json not null,
  primary key (batch_id, submission, part)
);

create table hf_worker (
  id bigint generated always as identity primary key,
  name text not null,
  host text not null,
  pid bigint not null,
  born text not null,
  lease interval not null check (lease > interval '0'),
  enlisted_at timestamptz not null,
  beat_at timestamptz not null,
  gone_at timestamptz
);

-- Keys are in the order of their bytes, so that the index returns them in order, and their hash is the same everywhere.
-- Half of each page is left free, so that a move finds room beside the row it replaces and changes no index (HOT).
create table hf_document (
  id bigint generated always as identity primary key,
  pipeline_id bigint not null references hf_pipeline,
  batch_id bigint not null references hf_batch,
  plan_id bigint not null,
  key text collate "C" not null,
  payload json not null,
  fingerprint text not null,
  submission bigint not null,
  part bigint not null,
  priority integer not null default 0,
  state text not null default 'waiting'
    check (state in ('waiting', 'running', 'paused', 'done', 'dead', 'cancelled')),
  generation integer not null default 0 check (generation >= 0),
  step_id bigint,
  cursor json,
  moves bigint not null default 0 check (moves >= 0),
  fence bigint not null default 0 check (fence >= 0),
  worker_id bigint,
  worked_by bigint,
  attempts integer not null default 0 check (attempts >= 0),
  crashes integer not null default 0 check (crashes >= 0),
  due_at timestamptz,
  deadline_at timestamptz,
  claimed_at timestamptz,
  reason text not null default '',
  error text not null default '',
  accepted_by text,
  reuses json,
  serves json,
  submitted_at timestamptz not null,
  moved_at timestamptz not null,
  cleaned_at timestamptz,
  unique (batch_id, key),
  check ((state = 'running') = (worker_id is not null)),
  check ((state = 'done') = (step_id is null)),
  check (state <> 'waiting' or due_at is not null),
  check (state = 'running' or deadline_at is null),
  check (state <> 'running' or claimed_at is not null),
  check (state = 'dead' or accepted_by is null),
  check (state in ('done', 'dead', 'cancelled') or cleaned_at is null),
  check (reuses is null or reuses::text ~ '^{("[0-9]+": ?[0-9]+(, ?"[0-9]+": ?[0-9]+)*)?}$')
) with (fillfactor = 50);

-- Indexes for claims, reclaims and wake-ups. A move changes none of them.
create index hf_document_waiting on hf_document (pipeline_id, priority desc, due_at, id) where state = 'waiting';
create index hf_document_suspect on hf_document (pipeline_id, due_at) where state = 'waiting' and crashes >= 2;
create index hf_document_running on hf_document (worker_id) where state = 'running';
create index hf_document_paused on hf_document (pipeline_id, due_at) where state = 'paused';
create index hf_document_dead on hf_document (pipeline_id, id) where state = 'dead';

create table hf_item (
  document_id bigint not null,
  generation integer not null,
  step_id bigint not null,
  position bigint not null check (position >= -1),
  items integer not null default 1 check (items >= 1),
  value json,
  data bytea,
  blob_hash bytea,
  kept_at timestamptz not null,
  primary key (document_id, generation, step_id, position),
  check (num_nonnulls(value, data, blob_hash) = 1)
);
create index hf_item_blob on hf_item (blob_hash) where blob_hash is not null;

create table hf_blob (
  hash bytea primary key,
  media text not null check (media in ('json', 'bytes')),
  content bytea not null,
  kept_at timestamptz not null
);

create table hf_aside (
  document_id bigint not null,
  generation integer not null,
  step_id bigint not null,
  position bigint not null,
  tries integer not null check (tries >= 1),
  error json not null,
  set_aside_at timestamptz not null,
  primary key (document_id, generation, step_id, position)
);

create table hf_permit (
  step_id bigint not null,
  document_id bigint not null,
  fence bigint not null,
  primary key (step_id, document_id)
);

create table hf_journal (
  id bigint generated always as identity primary key,
  document_id bigint,
  batch_id bigint references hf_batch,
  at timestamptz not null,
  verb text not null,
  who text not null,
  generation integer not null default 0,
  step text,
  cursor json,
  detail json,
  check ((document_id is null) <> (batch_id is null))
);
create index hf_journal_document on hf_journal (document_id, id) where document_id is not null;
create index hf_journal_batch on hf_journal (batch_id, id) where batch_id is not null;

-- How long the bodies of a step took, for all documents that went through it. The ETA is computed from it.
create table hf_pace (
  step_id bigint primary key references hf_step,
  documents bigint not null check (documents >= 0),
  seconds double precision not null check (seconds >= 0)
);

create view hf_standing as
select d.id, p.name as pipeline, b.name as batch, d.key, d.payload::text, d.fingerprint, d.priority, d.state,
       d.generation, s.name as step, d.cursor::text, d.moves, d.attempts, d.crashes, d.reason,
       coalesce(w.name, '') as holder, d.submitted_at, d.moved_at, d.due_at, d.error,
       coalesce(d.accepted_by, '') as accepted_by, d.claimed_at, d.deadline_at, d.cleaned_at, d.plan_id,
       l.name as worked_by, d.batch_id, d.pipeline_id
  from hf_document d
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  left join hf_step s on s.id = d.step_id
  left join hf_worker w on w.id = d.worker_id
  left join hf_worker l on l.id = d.worked_by;

create view hf_documents as
select pipeline, batch, key, state, step, cursor::json, generation, moves, attempts, crashes, priority, holder,
       worked_by, reason, submitted_at as submitted, moved_at as moved, due_at as due, payload::json, fingerprint, id
  from hf_standing;

create view hf_items as
select p.name as pipeline, b.name as batch, d.key, i.generation, s.name as step,
       i.position + coalesce(e.nth - 1, 0) as position,
       case when i.items > 1 then e.value
            else coalesce(i.value::text, case x.media when 'json' then convert_from(x.content, 'UTF8') end)::json
            end as value,
       coalesce(i.data, case x.media when 'bytes' then x.content end) as data, i.kept_at as kept
  from hf_item i
  join hf_document d on d.id = i.document_id
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  join hf_step s on s.id = i.step_id
  left join hf_blob x on x.hash = i.blob_hash
  left join lateral json_array_elements(case when i.items > 1 then i.value end) with ordinality as e (value, nth) on true;
