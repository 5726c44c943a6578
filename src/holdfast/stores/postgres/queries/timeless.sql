-- Whether a document waits for a decision at a gate without an end.
select exists (select 1
                 from hf_document
                where pipeline_id = %(pipeline_id)s
                  and state = 'paused'
                  and due_at is null
                  and step_id = %(step_id)s
                  and error <> 'OnHold'
                  and reason like %(reason)s)
