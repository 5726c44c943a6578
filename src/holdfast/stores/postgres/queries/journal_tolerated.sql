-- Dead letters that the tolerance accepts are journalled before it does.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, coalesce(%(now)s::timestamptz, now()), 'accept', %(who)s, d.generation, s.name, d.cursor, %(detail)s::json
  from hf_document d
  left join hf_step s on s.id = d.step_id
 where d.pipeline_id = %(pipeline_id)s
   and d.state = 'dead'
   and d.batch_id = %(batch_id)s
   and d.accepted_by is null
 order by d.id
