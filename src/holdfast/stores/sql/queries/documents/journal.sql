-- Return the journal of a document, oldest first.
select at, verb, who, generation, step, cursor::text, detail::text, code, times, last_at
  from hf_journal
 where document_id = :document_id
 order by id
