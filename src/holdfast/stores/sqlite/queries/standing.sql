-- Where one document stands.
select *
  from hf_standing
 where key = :key
   and batch_id = (select b.id
                     from hf_batch b
                     join hf_pipeline p on p.id = b.pipeline_id
                    where p.name = :pipeline
                      and b.name = :batch)
