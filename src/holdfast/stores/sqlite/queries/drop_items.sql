-- A document that is done as a later generation needs the items of the earlier ones no more.
delete from hf_item
 where document_id = :document_id
   and generation < :generation
   and not exists (select 1
                     from json_each(:reuses) r
                    where r.key = hf_item.step_id
                      and r.value = hf_item.generation)
