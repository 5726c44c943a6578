-- Documents that stand at a step that their pipeline never had are journalled before they are parked.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select id, coalesce(%(now)s::timestamptz, now()), 'pause', 'declare', generation, null, cursor,
       json_build_object('reason', %(reason)s::text, 'was', state, 'state', 'paused')
  from hf_document
 where pipeline_id = %(pipeline_id)s
   and state = 'waiting'
   and step_id not in (select id from hf_step where pipeline_id = %(pipeline_id)s)
