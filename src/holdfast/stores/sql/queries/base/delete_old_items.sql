-- Delete the items of earlier generations that finished documents do not reuse.
delete from hf_item as i
 where i.document_id in :ids::bigint[]
   and exists (select 1
                 from hf_document d
                where d.id = i.document_id
                  and d.id in :ids::bigint[] -- on postgresql
                  and i.generation < d.generation
                  and i.generation <> coalesce(json_int(d.reuses, i.step_id), -1))
