-- Delete the failed items of earlier generations that finished documents do not reuse.
delete from hf_aside as a
 where a.document_id in :ids::bigint[]
   and exists (select 1
                 from hf_document d
                where d.id = a.document_id
                  and d.id in :ids::bigint[] -- on postgresql
                  and a.generation < d.generation
                  and a.generation <> coalesce(json_int(d.reuses, a.step_id), -1))
