-- Return the status of the documents of a batch that have one of these keys.
select *
  from hf_document_status
 where batch_id = (select b.id
                     from hf_batch b
                     join hf_pipeline p on p.id = b.pipeline_id
                    where p.name = :pipeline
                      and b.name = :batch)
   and key in :keys::text[]
 order by id
