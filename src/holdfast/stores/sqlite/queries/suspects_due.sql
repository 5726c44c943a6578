-- Whether a document that crashed its workers is due, of those that may be claimed.
select exists (select 1
                 from hf_document
                where pipeline_id = :pipeline_id
                  and state = 'waiting'
                  and due_at <= :now
                  and crashes >= 2
                  and step_id in (select value from json_each(:step_ids))
                  and (:batch_id is null or batch_id = :batch_id))
