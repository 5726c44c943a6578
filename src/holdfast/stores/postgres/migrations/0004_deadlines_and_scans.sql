-- Deadlines of batches, and when workers last scanned a pipeline.
-- deadline_at: when documents that are still open are ended, as dead letters or cancelled (deadline_action).
-- expired_at: when the last of them was ended. Documents that a person opens later are left alone.
-- scanned_at: when a worker last began a scan for stale batches, so that one worker of many does it.

alter table hf_batch
  add column deadline_at timestamptz,
  add column deadline_action text not null default 'fail' check (deadline_action in ('fail', 'cancel')),
  add column expired_at timestamptz check (expired_at is null or deadline_at is not null);
alter table hf_pipeline add column scanned_at timestamptz;

create index hf_batch_deadline on hf_batch (pipeline_id, deadline_at)
 where deadline_at is not null and expired_at is null;
