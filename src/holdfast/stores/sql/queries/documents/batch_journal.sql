-- Return the journal of a batch, oldest first.
select j.at, j.verb, j.who, j.generation, j.step, j.cursor::text, j.detail::text, j.code, j.times, j.last_at
  from hf_journal j
 where j.batch_id = (select b.id
                       from hf_batch b
                       join hf_pipeline p on p.id = b.pipeline_id
                      where p.name = :pipeline
                        and b.name = :batch)
 order by j.id
