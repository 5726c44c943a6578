-- Reason codes. The sentence in `reason` is for people; programs read `code` (see holdfast/core/reasons.py).
-- Rows that were written before have only the sentence, so it is read here, for the last time.

alter table hf_document add column code text not null default '';
alter table hf_journal add column code text not null default '';

update hf_document
   set code = 'on_hold', error = ''
 where error = 'OnHold';

update hf_document
   set code = 'at_gate'
 where state = 'paused'
   and code = ''
   and reason like 'gate %: a person has to decide';

update hf_document
   set code = case when reason like '%rewind it to ' || (select s.name from hf_step s where s.id = step_id) || ', or submit%'
                   then 'damaged_step' else 'damaged' end
 where state = 'paused'
   and code = ''
   and reason like 'its checkpoint is damaged: %';

update hf_document
   set code = 'work_gone_again'
 where state = 'paused'
   and code = ''
   and reason like 'the work of % is gone again, %: a person has to decide';

update hf_document
   set code = case reason when 'its file was deleted' then 'file_deleted'
                          when 'its message does not carry it any more' then 'attachment_gone'
                          else 'source_forgotten' end
 where state = 'cancelled'
   and reason in ('its file was deleted', 'its message does not carry it any more', 'its source was forgotten');

update hf_journal
   set code = case when detail ->> 'reason' = 'the work of ' || (detail ->> 'to') || ' is gone'
                   then 'work_gone' else 'work_gone_again' end
 where verb = 'rewind'
   and detail ->> 'reason' like 'the work of ' || (detail ->> 'to') || ' is gone%';

update hf_journal
   set code = 'question'
 where verb = 'pause'
   and detail ->> 'asks' = 'true';

update hf_journal
   set code = case who when 'declare' then 'reordered' else 'cursor_expired' end
 where verb = 'rewind'
   and code = ''
   and detail ->> 'to' is not null
   and detail ->> 'was' is null;

drop view hf_documents;
drop view hf_standing;

create view hf_standing as
select d.id, p.name as pipeline, b.name as batch, d.key, d.payload::text, d.fingerprint, d.priority, d.state,
       d.generation, s.name as step, d.cursor::text, d.moves, d.attempts, d.crashes, d.reason,
       coalesce(w.name, '') as holder, d.submitted_at, d.moved_at, d.due_at, d.error,
       coalesce(d.accepted_by, '') as accepted_by, d.claimed_at, d.deadline_at, d.cleaned_at, d.plan_id,
       l.name as worked_by, d.code, d.batch_id, d.pipeline_id
  from hf_document d
  join hf_batch b on b.id = d.batch_id
  join hf_pipeline p on p.id = d.pipeline_id
  left join hf_step s on s.id = d.step_id
  left join hf_worker w on w.id = d.worker_id
  left join hf_worker l on l.id = d.worked_by;

create view hf_documents as
select pipeline, batch, key, state, step, cursor::json, generation, moves, attempts, crashes, priority, holder,
       worked_by, reason, code, submitted_at as submitted, moved_at as moved, due_at as due, payload::json, fingerprint, id
  from hf_standing;
