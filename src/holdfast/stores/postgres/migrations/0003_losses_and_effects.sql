-- More of what is known about a document, besides crashes and attempts. Counts are since its last move.
-- losses: how often its worker was lost, with nothing that says the document caused it. Documents whose worker was lost
-- many times are processed alone, like those with crashes.
-- deferrals, deferred_at: how often a body put it off with RetryLater, and since when. In hf_journal, a deferral that
-- repeats is one line: `times` counts how often, and last_at is the time of the last one.
-- interruptions: how often a worker had to stop before the document moved.
-- recoverable: whether its last error can go away by itself.
--
-- effects: for each step, the generation whose effect wrote the rows that are there now. rows_left_at of a step: when it
-- first left rows of an earlier generation behind, because it has no undo. People are told once for each step.
--
-- extents: what the finished steps of a document kept, so that damage is noticed when the document is taken up. By step:
-- the number of items, with those that were set aside; -1 for one value that is not a list. An entry holds for its step
-- and for the steps before it, back to the previous entry. The step in which a document is has an entry too if its
-- cursor says more than its items: by how much a count is ahead of the items, or -1 minus the number of items if the
-- cursor is not a count. Under 0, which is no step: not all is known, as of documents that moved before this migration.
--
-- waits_since: since when a document waits for due_at. It is in the future only if the clock was set back since. Null: the
-- end was given as a moment. For older rows it is known only if they were due as soon as they moved.
--
-- death: what is known about the end of a worker, as JSON: the evidence that a document caused it, and which documents
-- were running.
--
-- The table hf_pace is hf_step_time now, and the view hf_standing is hf_document_status.
--
-- Documents that a person rejected have a code of their own. Their error, Rejected, may be one of a body too.

alter table hf_document
  add column losses integer not null default 0 check (losses >= 0),
  add column deferrals integer not null default 0 check (deferrals >= 0),
  add column deferred_at timestamptz,
  add column interruptions integer not null default 0 check (interruptions >= 0),
  add column recoverable boolean,
  add column effects json check (json_typeof(effects) = 'object'),
  add column extents json check (json_typeof(extents) = 'object'),
  add column waits_since timestamptz;

alter table hf_step add column rows_left_at timestamptz;
alter table hf_journal add column times integer not null default 1 check (times >= 1);
alter table hf_journal add column last_at timestamptz;
alter table hf_worker add column death json check (json_typeof(death) = 'object');

drop index hf_document_suspect;
create index hf_document_suspect on hf_document (pipeline_id, due_at)
 where state = 'waiting' and (crashes >= 2 or losses >= 5);

update hf_document set extents = '{"0":1}' where moves > 0 and extents is null;
update hf_document set waits_since = moved_at where state = 'waiting' and due_at <= moved_at;

update hf_document
   set code = 'rejected'
 where state = 'dead'
   and error = 'Rejected'
   and code = ''
   and exists (select 1 from hf_journal j where j.document_id = hf_document.id and j.verb = 'reject');

drop view hf_documents;
drop view hf_standing;

alter table hf_pace rename to hf_step_time;

create view hf_document_status as
select d.id, p.name as pipeline, b.name as batch, d.key, d.payload::text, d.fingerprint, d.priority, d.state,
       d.generation, s.name as step, d.cursor::text, d.moves, d.attempts, d.crashes, d.reason,
       coalesce(w.name, '') as holder, d.submitted_at, d.moved_at, d.due_at, d.error,
       coalesce(d.accepted_by, '') as accepted_by, d.claimed_at, d.deadline_at, d.cleaned_at, d.plan_id,
       l.name as worked_by, d.code, d.losses, d.deferrals, d.deferred_at, d.interruptions,
       d.recoverable, case when d.due_at is not null then d.waits_since end as waits_since, d.batch_id, d.pipeline_id
  from hf_document d
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  left join hf_step s on s.id = d.step_id
  left join hf_worker w on w.id = d.worker_id
  left join hf_worker l on l.id = d.worked_by;

create view hf_documents as
select pipeline, batch, key, state, step, cursor::json, generation, moves, attempts, crashes, losses, deferrals,
       interruptions, priority, holder,
       worked_by, reason, code, recoverable, submitted_at as submitted, moved_at as moved, due_at as due, payload::json, fingerprint, id
  from hf_document_status;
