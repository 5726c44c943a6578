-- A new incarnation of a worker.
insert into hf_worker (name, host, pid, born, lease, enlisted_at, beat_at)
values (%(name)s, %(host)s, %(pid)s, %(born)s, %(lease)s, coalesce(%(now)s::timestamptz, now()),
        coalesce(%(now)s::timestamptz, now()))
returning id, enlisted_at
