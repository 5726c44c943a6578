-- Delete permits of documents that left the step, or the worker that got the permit.
delete from hf_permit
 where step_id = :step_id
   and not exists (select 1
                     from hf_document d
                    where d.id = hf_permit.document_id
                      and d.fence = hf_permit.fence
                      and d.step_id = hf_permit.step_id
                      and d.state = 'running')
