-- Return true if a document that has to be processed alone is due and may be claimed.
-- The numbers are core.retry.SUSPECT and SUSPECT_LOSSES, as in the index of suspects.
select exists (select 1
                 from hf_document
                where pipeline_id = :pipeline_id
                  and state = 'waiting'
                  and due_at <= :now
                  and (crashes >= 2 or losses >= 5)
                  and step_id in :step_ids::bigint[]
                  and (:batch::text is null
                       or batch_id = (select id
                                        from hf_batch
                                       where pipeline_id = :pipeline_id
                                         and name = :batch::text)))
