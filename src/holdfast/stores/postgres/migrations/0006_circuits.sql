-- A row of hf_circuit is a step that is paused for all documents, or was so once: a service is away. opened_at is null
-- while it is closed. One document at a time is tried at probe_at; probe_document_id and probe_fence name the last one.
-- worked_at: when a body began with which a document passed the step. The latest one counts.

create table hf_circuit (
  step_id bigint primary key references hf_step,
  opened_at timestamptz,
  opened_by text not null,
  failures int not null check (failures >= 0),
  error text not null,
  category text not null,
  reason text not null,
  probes int not null default 0 check (probes >= 0),
  probe_at timestamptz,
  probe_document_id bigint,
  probe_fence bigint,
  closed_at timestamptz,
  closed_by text not null default '',
  close_reason text not null default '',
  check ((opened_at is null) = (probe_at is null))
);

alter table hf_step_time add column worked_at timestamptz;
