-- Write one journal line about a batch.
insert into hf_journal (batch_id, at, verb, who, detail)
values (:batch_id, :now, :verb, :who, :detail::json)
returning id
