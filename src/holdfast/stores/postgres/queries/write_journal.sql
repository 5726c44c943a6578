-- Lines of the journal, beside the documents' present places.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, coalesce(%(now)s::timestamptz, now()), line.verb, line.who, d.generation, s.name, d.cursor, line.detail
  from unnest(%(ids)s::bigint[], %(verbs)s::text[], %(whos)s::text[], %(details)s::json[])
       as line (id, verb, who, detail)
  join hf_document d on d.id = line.id
  left join hf_step s on s.id = d.step_id
 where d.id = any(%(ids)s::bigint[])
