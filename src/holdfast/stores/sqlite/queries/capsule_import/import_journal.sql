-- Add a journal line of a capsule.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code, times, last_at)
values (:document_id, :at, :verb, :who, :generation, :step, :cursor, :detail, :code, :times, :last_at)
