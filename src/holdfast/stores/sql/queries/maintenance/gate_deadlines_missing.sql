-- Return true if a document waits for a decision at a gate without a deadline.
select exists (select 1
                 from hf_document
                where pipeline_id = :pipeline_id
                  and state = 'paused'
                  and due_at is null
                  and step_id = :step_id
                  and code = 'at_gate')
