-- Write the journal lines of dead letters before the tolerance of the batch accepts them.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
select d.id, :now, 'accept', :who, d.generation, s.name, d.cursor, :detail::json
  from hf_document d
  indexed by hf_document_dead -- on sqlite
  left join hf_step s on s.id = d.step_id
 where d.pipeline_id = :pipeline_id
   and d.state = 'dead'
   and d.batch_id = :batch_id
   and d.accepted_by is null
 order by d.id
