-- Whether a paused document's time has come.
select exists (select 1
                 from hf_document
                where pipeline_id = :pipeline_id
                  and state = 'paused'
                  and due_at <= :now
                  and (step_id in (select value from json_each(:bodies)) or error = 'OnHold'))
