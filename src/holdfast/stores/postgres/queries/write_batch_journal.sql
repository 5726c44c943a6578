-- One line about a batch itself.
insert into hf_journal (batch_id, at, verb, who, detail)
values (%(batch_id)s, coalesce(%(now)s::timestamptz, now()), %(verb)s, %(who)s, %(detail)s::json)
returning id
