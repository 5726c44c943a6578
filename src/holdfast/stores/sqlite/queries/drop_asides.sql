-- A document that is done as a later generation needs what earlier ones set aside no more, but for what it reuses.
delete from hf_aside
 where document_id = :document_id
   and generation < (select generation from hf_document where id = :document_id)
   and not exists (select 1
                     from hf_document d
                     join json_each(d.reuses) r
                    where d.id = :document_id
                      and r.key = hf_aside.step_id
                      and r.value = hf_aside.generation)
