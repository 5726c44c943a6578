-- Return true if the time of a paused document has come.
select exists (select 1
                 from hf_document
                where pipeline_id = :pipeline_id
                  and state = 'paused'
                  and due_at <= :now
                  and (step_id in :bodies::bigint[] or code = 'on_hold'))
