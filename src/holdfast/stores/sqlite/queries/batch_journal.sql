-- A batch's own journal, oldest first.
select j.at, j.verb, j.who, j.generation, j.step, j.cursor, j.detail
  from hf_journal j
 where j.batch_id = (select b.id
                       from hf_batch b
                       join hf_pipeline p on p.id = b.pipeline_id
                      where p.name = :pipeline
                        and b.name = :batch)
 order by j.id
