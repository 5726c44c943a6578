-- Permits whose documents are no longer in the step, or no longer with the worker that got them.
delete from hf_permit
 where step_id = %(step_id)s
   and not exists (select 1
                     from hf_document d
                    where d.id = hf_permit.document_id
                      and d.fence = hf_permit.fence
                      and d.step_id = hf_permit.step_id
                      and d.state = 'running')
