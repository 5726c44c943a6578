-- Where one document stands.
select *
  from hf_standing
 where key = %(key)s
   and batch_id = (select b.id
                     from hf_batch b
                     join hf_pipeline p on p.id = b.pipeline_id
                    where p.name = %(pipeline)s
                      and b.name = %(batch)s)
