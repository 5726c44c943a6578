-- Add a new incarnation of a worker.
insert into hf_worker (name, host, pid, born, lease, enlisted_at, beat_at)
values (:name, :host, :pid, :born, :lease, :now, :now)
returning id, enlisted_at
