-- Write the journal lines of documents at a step that their pipeline never had, before they are paused.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail, code)
select id, :now, 'pause', 'declare', generation, null, cursor,
       json_build_object('reason', :reason::text, 'was', state, 'state', 'paused'), :code::text
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'waiting'
   and step_id not in (select id from hf_step where pipeline_id = :pipeline_id)
