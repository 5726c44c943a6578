-- A batch's own journal, oldest first.
select j.at, j.verb, j.who, j.generation, j.step, j.cursor::text, j.detail::text
  from hf_journal j
 where j.batch_id = (select b.id
                       from hf_batch b
                       join hf_pipeline p on p.id = b.pipeline_id
                      where p.name = %(pipeline)s
                        and b.name = %(batch)s)
 order by j.id
