-- One line about a batch itself.
insert into hf_journal (batch_id, at, verb, who, detail)
values (:batch_id, :now, :verb, :who, :detail)
returning id
