-- totals: how many items streams said they will yield in all, by step. It is for people and for progress: nothing is
-- decided by it. items_total of the views: that of the step in which the document is.

alter table hf_document add column totals text check (totals is null or json_type(totals) = 'object');

drop view hf_documents;
drop view hf_document_status;

create view hf_document_status as
select d.id, p.name as pipeline, b.name as batch, d.key, d.payload, d.fingerprint, d.priority, d.state, d.generation,
       s.name as step, d.cursor, d.moves, d.attempts, d.crashes, d.reason, coalesce(w.name, '') as holder,
       d.submitted_at, d.moved_at, d.due_at, d.error, coalesce(d.accepted_by, '') as accepted_by, d.claimed_at,
       d.deadline_at, d.cleaned_at, d.plan_id, l.name as worked_by, d.code, d.losses, d.deferrals, d.deferred_at, d.interruptions,
       d.recoverable, case when d.due_at is not null then d.waits_since end as waits_since,
       iif(json_valid(d.totals), json_extract(d.totals, '$."' || d.step_id || '"'), null) as items_total, d.batch_id, d.pipeline_id
  from hf_document d
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  left join hf_step s on s.id = d.step_id
  left join hf_worker w on w.id = d.worker_id
  left join hf_worker l on l.id = d.worked_by;

create view hf_documents as
select pipeline, batch, key, state, step, cursor, items_total, generation, moves, attempts, crashes, losses, deferrals,
       interruptions, priority, holder,
       worked_by, reason, code, recoverable,
       datetime(submitted_at / 1000000, 'unixepoch') as submitted,
       datetime(moved_at / 1000000, 'unixepoch') as moved,
       datetime(due_at / 1000000, 'unixepoch') as due, payload, fingerprint, id
  from hf_document_status;
