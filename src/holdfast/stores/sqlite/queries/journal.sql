-- A document's journal, oldest first.
select at, verb, who, generation, step, cursor, detail
  from hf_journal
 where document_id = :document_id
 order by id
