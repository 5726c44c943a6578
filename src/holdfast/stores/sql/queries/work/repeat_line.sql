-- Count a deferral in the line of the journal that has the same verb, step and reason. Return the documents of such lines.
-- If a step has many lines with different reasons, the newest of them is used: reasons that never repeat must not flood
-- the journal.
update hf_journal as j
   set times = j.times + 1, last_at = :now, who = line.who, cursor = d.cursor, detail = line.detail, code = line.code
  from rows(:lines) as line (id bigint, verb text, who text, detail json, code text)
  join hf_document d on d.id = line.id
                    and d.id in :lines_id::bigint[] -- on postgresql
  join hf_step s on s.id = d.step_id
 where j.id = coalesce((select max(k.id)
                          from hf_journal k
                         where k.document_id = line.id
                           and k.verb = line.verb
                           and k.generation = d.generation
                           and k.step = s.name
                           and k.code = line.code
                           and k.detail ->> 'reason' = line.detail ->> 'reason'),
                       (select case when count(*) >= :most then max(k.id) end
                          from hf_journal k
                         where k.document_id = line.id
                           and k.verb = line.verb
                           and k.generation = d.generation
                           and k.step = s.name))
returning document_id -- on sqlite
returning j.document_id -- on postgresql
