-- A document's journal, oldest first.
select at, verb, who, generation, step, cursor::text, detail::text
  from hf_journal
 where document_id = %(document_id)s
 order by id
