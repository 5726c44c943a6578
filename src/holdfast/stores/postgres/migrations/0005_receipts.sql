-- Receipts. Each connection has a row, and each of its transactions writes its number there. If the answer to a commit
-- is lost, the number tells whether the transaction was committed, also after a failover.

create table hf_receipt (
  connection text primary key,
  number bigint not null check (number >= 0),
  written_at timestamptz not null
);
