-- Return the status of one document.
select *
  from hf_document_status
 where key = :key
   and batch_id = (select b.id
                     from hf_batch b
                     join hf_pipeline p on p.id = b.pipeline_id
                    where p.name = :pipeline
                      and b.name = :batch)
